#include "hone/media/image_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::media {
namespace {

constexpr double kMostRatio = 200;

double ratio(ImageSize size) {
  return static_cast<double>(std::max(size.width, size.height)) / static_cast<double>(std::min(size.width, size.height));
}

ImageSize scaled(ImageSize size, double by) {
  return {static_cast<int64_t>(static_cast<double>(size.width) * by),
          static_cast<int64_t>(static_cast<double>(size.height) * by)};
}

// LLaMA-Factory's preprocessing before transformers: limits the pixels in the original color mode, then, in RGB, the sides and
// the aspect ratio for Qwen.
std::vector<ImageGeometry::Step> factory_steps(ImageSize now, const ImageProcessorConfig& config) {
  std::vector<ImageGeometry::Step> steps;
  auto go_to = [&](ImageSize to, bool to_rgb) {
    steps.push_back({to, Filter::bicubic, to_rgb});
    now = to;
  };
  auto scale_to = [&](int64_t pixels) {
    go_to(scaled(now, std::sqrt(static_cast<double>(pixels) / static_cast<double>(now.pixels()))), false);
  };
  if (now.pixels() > config.factory_max_pixels) scale_to(config.factory_max_pixels);
  if (now.pixels() > 0 && now.pixels() < config.factory_min_pixels) scale_to(config.factory_min_pixels);
  if (config.tiles.side > 0) return steps;  // the rest is for Qwen
  constexpr int64_t kLeastSide = 28, kKeptRatio = 180;
  if (std::min(now.width, now.height) < kLeastSide)
    go_to({std::max(now.width, kLeastSide), std::max(now.height, kLeastSide)}, true);
  if (now.width > 200 * now.height) go_to({now.height * kKeptRatio, now.height}, true);
  if (now.height > 200 * now.width) go_to({now.width, now.width * kKeptRatio}, true);
  return steps;
}

int64_t positive(const Json& fields, const char* name, int64_t otherwise) {
  auto found = fields.find(name);
  if (found == fields.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer() || found->get<int64_t>() <= 0 || found->get<int64_t>() > int64_t{1} << 40)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is {}; expected a positive number", name, found->dump()));
  return found->get<int64_t>();
}

void read_triple(const Json& fields, const char* name, std::array<double, 3>& out) {
  auto found = fields.find(name);
  if (found == fields.end() || found->is_null()) return;
  const bool fits =
      found->is_array() && found->size() == 3 && std::ranges::all_of(*found, [](const Json& n) { return n.is_number(); });
  if (!fits) throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is {}; expected three numbers", name, found->dump()));
  for (size_t c = 0; c < 3; ++c) out[c] = (*found)[c].get<double>();
}

void add_tiles(ImageGeometry& geometry, ImageSize now, const ImageProcessorConfig& config) {
  const int64_t side = config.tiles.side;
  const auto chosen = choose_tiles(now, config.tiles);
  geometry.steps.push_back({{chosen.width * side, chosen.height * side}, config.filter, true});
  geometry.has_thumbnail = chosen.pixels() > 1;
  geometry.frames = chosen.pixels() + (geometry.has_thumbnail ? 1 : 0);
  geometry.grid_h = geometry.grid_w = side / config.patch_size;
  geometry.tokens = geometry.patches() / (config.merge_size * config.merge_size);
}

}  // namespace

// Candidates with few tiles come first, then narrow ones. Of two equal ratios, the later wins if the image fills half of it.
ImageSize choose_tiles(ImageSize size, const TileConfig& config) {
  ImageSize best{1, 1};
  const double wide = static_cast<double>(size.width) / static_cast<double>(size.height);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t count = 1; count <= config.most; ++count)
    for (int64_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const int64_t rows = count / columns;
      const double distance = std::abs(wide - static_cast<double>(columns) / static_cast<double>(rows));
      const bool fills = static_cast<double>(size.pixels()) > 0.5 * static_cast<double>(config.side * config.side * count);
      if (distance < least || (distance == least && fills)) best = {columns, rows};
      least = std::min(least, distance);
    }
  return best;
}

std::vector<ImageBox> choose_crops(ImageSize size, const PanAndScanConfig& config) {
  const bool is_wide = size.width >= size.height;
  const int64_t length = is_wide ? size.width : size.height, breadth = is_wide ? size.height : size.width;
  const double ratio = static_cast<double>(length) / static_cast<double>(breadth);
  if (!config.is_on || ratio < config.min_ratio_to_activate) return {};
  int64_t count = std::min(static_cast<int64_t>(std::floor(ratio + 0.5)), length / config.min_crop_size);
  count = std::min(std::max<int64_t>(count, 2), config.max_num_crops);
  const int64_t piece = (length + count - 1) / count;
  if (std::min(piece, breadth) < config.min_crop_size) return {};
  std::vector<ImageBox> boxes;
  for (int64_t at = 0; at < length; at += piece) {
    const int64_t rest = std::min(piece, length - at);
    boxes.push_back(is_wide ? ImageBox{at, 0, {rest, breadth}} : ImageBox{0, at, {breadth, rest}});
  }
  return boxes;
}

std::vector<ImageGeometry> crop_geometries(const ImageGeometry& whole, const PanAndScanConfig& config) {
  const auto before = whole.steps.size() > 1 ? whole.steps[whole.steps.size() - 2].to : whole.source;
  std::vector<ImageGeometry> geometries;
  for (const auto& box : choose_crops(before, config)) {
    geometries.push_back(whole);
    geometries.back().steps.back().from = box;
  }
  return geometries;
}

ImageProcessorConfig parse_image_processor(const Json& preprocessor, ImageProcessorConfig config, const std::string& origin) try {
  if (!preprocessor.is_object()) throw UserError(ExitCode::bad_checkpoint, "expected an object");
  config.patch_size = positive(preprocessor, "patch_size", config.patch_size);
  config.temporal_patch_size = positive(preprocessor, "temporal_patch_size", config.temporal_patch_size);
  config.merge_size = positive(preprocessor, "merge_size", config.merge_size);
  config.min_pixels = positive(preprocessor, "min_pixels", config.min_pixels);
  config.max_pixels = positive(preprocessor, "max_pixels", config.max_pixels);
  if (auto size = preprocessor.find("size"); size != preprocessor.end() && size->is_object()) {
    config.min_pixels = positive(*size, "shortest_edge", config.min_pixels);
    config.max_pixels = positive(*size, "longest_edge", config.max_pixels);
  }
  read_triple(preprocessor, "image_mean", config.mean);
  read_triple(preprocessor, "image_std", config.std);
  constexpr int kBilinear = 2, kBicubic = 3;  // Pillow's constants
  if (const auto filter = preprocessor.value("resample", Json()); filter == kBilinear || filter == kBicubic)
    config.filter = filter == kBilinear ? Filter::bilinear : Filter::bicubic;
  if (auto factor = preprocessor.find("rescale_factor"); factor != preprocessor.end() && factor->is_number())
    config.rescale_factor = factor->get<double>();
  if (config.factor() > 4096 || config.temporal_patch_size > 64)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("patches of {} pixels are beyond any model", config.factor()));
  return config;
} catch (const UserError& cause) {
  throw UserError(cause.code(), origin + ": " + cause.what(), cause.hint());
}

// Ovis enlarges a small side together with the other one, and crops an aspect ratio above 200.
static ImageSize ovis_sides(ImageSize size, int64_t factor) {
  auto raised = [&](int64_t other, int64_t small) {
    return static_cast<int64_t>(
        std::nearbyint(static_cast<double>(factor) / static_cast<double>(small) * static_cast<double>(other)));
  };
  if (size.height < factor || size.width < factor)
    return size.height < size.width ? ImageSize{raised(size.width, size.height), factor}
                                    : ImageSize{factor, raised(size.height, size.width)};
  if (ratio(size) <= kMostRatio) return size;
  return size.height > size.width ? ImageSize{size.width, 200 * size.width} : ImageSize{200 * size.height, size.height};
}

Result<ImageSize> smart_resize(ImageSize size, const ImageProcessorConfig& config) {
  if (config.rule == ResizeRule::ovis)
    size = ovis_sides(size, config.factor());
  else if (ratio(size) > kMostRatio)
    return error("{} x {} pixels; expected sides whose ratio is at most {}", size.width, size.height, kMostRatio);
  const auto factor = static_cast<double>(config.factor());
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const int64_t least = config.rule == ResizeRule::qwen_vl_utils ? config.factor() : 0;
  auto round = [&](double side) {
    return std::max(static_cast<int64_t>(std::nearbyint(side / factor)) * config.factor(), least);
  };
  auto floor = [&](double side) { return static_cast<int64_t>(std::floor(side / factor)) * config.factor(); };
  auto ceil = [&](double side) { return static_cast<int64_t>(std::ceil(side / factor)) * config.factor(); };
  ImageSize to{round(width), round(height)};
  if (to.pixels() > config.max_pixels) {
    const double beta = std::sqrt(width * height / static_cast<double>(config.max_pixels));
    to = {floor(width / beta), floor(height / beta)};
    if (config.rule == ResizeRule::factory) to = {std::max(to.width, config.factor()), std::max(to.height, config.factor())};
  } else if (to.pixels() < config.min_pixels) {
    const double beta = std::sqrt(static_cast<double>(config.min_pixels) / (width * height));
    to = {ceil(width * beta), ceil(height * beta)};
  }
  if (to.width <= 0 || to.height <= 0)
    return error("{} x {} pixels would be shrunk to none; raise the largest number of pixels", size.width, size.height);
  return to;
}

Result<ImageGeometry> image_geometry(ImageSize size, const ImageProcessorConfig& config) {
  ImageGeometry geometry;
  geometry.source = size;
  auto now = size;
  if (config.rule == ResizeRule::factory) {
    geometry.steps = factory_steps(size, config);
    for (const auto& step : geometry.steps)
      if (step.to.width <= 0 || step.to.height <= 0)
        return error("{} x {} pixels would be shrunk to none; raise image_max_pixels", size.width, size.height);
    if (!geometry.steps.empty()) now = geometry.steps.back().to;
  } else if (config.shrink_above > 0 && size.pixels() > config.shrink_above) {
    const double wide = static_cast<double>(size.width) / static_cast<double>(size.height);
    const double height = std::sqrt(static_cast<double>(config.shrink_above) / wide);
    now = {static_cast<int64_t>(height * wide), static_cast<int64_t>(height)};
    if (now.width <= 0 || now.height <= 0)
      return error("{} x {} pixels would be shrunk to none; raise `max_pixels`", size.width, size.height);
    geometry.steps.push_back({now, Filter::bilinear, true});
  }
  if (config.tiles.side > 0) {
    add_tiles(geometry, now, config);
    return geometry;
  }
  auto final_size = smart_resize(now, config);
  if (!final_size) return Error{final_size.error()};
  geometry.steps.push_back({*final_size, config.rule == ResizeRule::ovis ? config.filter : Filter::bicubic, true});
  geometry.grid_h = final_size->height / config.patch_size;
  geometry.grid_w = final_size->width / config.patch_size;
  geometry.tokens = geometry.patches() / (config.merge_size * config.merge_size) + config.marks;
  return geometry;
}

}  // namespace hone::media

// The image processors of the vision families: the resized size of an image, its number of tokens, and the rows of patches for
// the vision tower.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "hone/base/json.h"
#include "hone/media/resize.h"

namespace hone::media {

// The resize rule: ms-swift's (qwen_vl_utils), LLaMA-Factory's, which resizes before transformers does, or Ovis's, which accepts
// small sides and any ratio.
enum class ResizeRule { qwen_vl_utils, factory, ovis };

// InternVL: an image becomes square tiles of one size, in row-major order, plus a thumbnail if there are several.
struct TileConfig {
  int64_t side = 0;  // in pixels; 0: pictures stay whole
  int64_t most = 12;
};

// Gemma 3: crops of a long image in addition to the full image. Like transformers' do_pan_and_scan, with LLaMA-Factory's limits.
struct PanAndScanConfig {
  bool is_on = false;
  int64_t max_num_crops = 4;
  int64_t min_crop_size = 256;
  double min_ratio_to_activate = 1.2;
};

struct ImageProcessorConfig {
  int64_t patch_size = 14, temporal_patch_size = 2, merge_size = 2;
  int64_t min_pixels = 4 * 28 * 28, max_pixels = 16384 * 28 * 28;
  std::array<double, 3> mean{0.48145466, 0.4578275, 0.40821073}, std{0.26862954, 0.26130258, 0.27577711};
  double rescale_factor = 1.0 / 255;
  bool divides_by_255 = false;  // as torchvision does, in float32; else multiplied by rescale_factor
  ResizeRule rule = ResizeRule::qwen_vl_utils;
  Filter filter = Filter::bicubic;  // of tiles, and of Ovis
  TileConfig tiles;
  PanAndScanConfig pan_and_scan;
  int64_t marks = 0;                                               // rows around the cells of a picture, which are tokens too
  int64_t shrink_above = 0;                                        // swift --max_pixels: shrunk to this many pixels first; 0: not
  int64_t factory_min_pixels = 1024, factory_max_pixels = 589824;  // factory: image_min_pixels, image_max_pixels

  int64_t factor() const { return patch_size * merge_size; }  // sides are multiples of it; one cell of factor x factor is a token
  int64_t row_size() const { return 3 * temporal_patch_size * patch_size * patch_size; }
};

// The model's preprocessor_config.json, with `config` as defaults. Throws UserError(bad_checkpoint) naming the field.
ImageProcessorConfig parse_image_processor(const Json& preprocessor, ImageProcessorConfig config, const std::string& origin);

// Both sides as multiples of `factor`, within the limits, keeping the ratio as far as possible. Rounds half to even, as in
// Python.
Result<ImageSize> smart_resize(ImageSize size, const ImageProcessorConfig& config);

// How an image is resized and split, its patch grid and its number of tokens.
struct ImageGeometry {
  struct Step {
    ImageSize to;
    Filter filter = Filter::bicubic;
    bool to_rgb = false;                // the colours are brought to RGB before it
    std::optional<ImageBox> from = {};  // the part that is resized; none: all of it
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // the last one's size is that of the tower's input, or of what is split into tiles
  ImageSize source;
  bool has_thumbnail = false;      // the whole picture is a tile too, the last one
  int64_t frames = 1;              // tiles; 1: the picture is whole
  int64_t grid_h = 0, grid_w = 0;  // of a frame, in patches
  int64_t patches() const { return frames * grid_h * grid_w; }
  int64_t tokens = 0;
  bool is_crop() const { return !steps.empty() && steps.back().from; }
  bool operator==(const ImageGeometry&) const = default;
};

// The number of tiles across and down whose ratio is closest to the image's.
ImageSize choose_tiles(ImageSize size, const TileConfig& config);

Result<ImageGeometry> image_geometry(ImageSize size, const ImageProcessorConfig& config);

// The crops of an image of this size.
std::vector<ImageBox> choose_crops(ImageSize size, const PanAndScanConfig& config);
// The same of the crops of an image, from that of the full image.
std::vector<ImageGeometry> crop_geometries(const ImageGeometry& whole, const PanAndScanConfig& config);

// The rows of one image, geometry.patches() of config.row_size() floats, in the order of merge blocks.
void fill_patch_rows(Image image, const ImageGeometry& geometry, const ImageProcessorConfig& config, std::span<float> rows);

}  // namespace hone::media

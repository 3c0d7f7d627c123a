#include "hone/model/encoders/vision_layout.h"

#include <array>
#include <cmath>

#include "hone/base/error.h"

namespace hone::model {
namespace {

struct Places {
  std::vector<int64_t> rows, columns;  // patches in the order of merge blocks
};

void append_frame(const PatchGrid& grid, int64_t merge, Places& places) {
  for (int64_t by = 0; by < grid.height; by += merge)
    for (int64_t bx = 0; bx < grid.width; bx += merge)
      for (int64_t y = by; y < by + merge; ++y)
        for (int64_t x = bx; x < bx + merge; ++x) places.rows.push_back(y), places.columns.push_back(x);
}

// The cells of one frame window by window, from the left and from the top; windows at the right and the bottom may be smaller.
void append_windows(int64_t height, int64_t width, int64_t side, int64_t first, int64_t unit, std::vector<int64_t>& order,
                    ops::CuSeqlens& windows) {
  for (int64_t top = 0; top < height; top += side)
    for (int64_t left = 0; left < width; left += side) {
      const int64_t bottom = std::min(top + side, height), right = std::min(left + side, width);
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t x = left; x < right; ++x) order.push_back(first + y * width + x);
      windows.append((bottom - top) * (right - left) * unit);
    }
}

// The two nearest rows of a table for a patch, and the weight of each. In float32, as in transformers.
struct Between {
  std::array<int64_t, 2> places;
  std::array<float, 2> weights;
};

Between between(int64_t at, int64_t size, int64_t side) {
  const float source = static_cast<float>(at) * static_cast<float>(side - 1) / static_cast<float>(std::max<int64_t>(size - 1, 1));
  const float below = std::floor(source), part = source - below;
  const auto first = static_cast<int64_t>(below);
  return {{std::min(first, side - 1), std::min(first + 1, side - 1)}, {1 - part, 1 - std::abs(part - 1)}};
}

Tensor as_tensor(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

// Patches follow the order of their cells.
Tensor by_cells(const Tensor& places_p, const Tensor& order_c, int64_t unit) {
  return places_p.view({-1, unit}).index_select(0, order_c).view({-1});
}

}  // namespace

VisionLayout vision_layout(const std::vector<PatchGrid>& grids, const VisionConfig& config) {
  VisionLayout layout;
  Places places;
  std::vector<int64_t> order;
  const int64_t merge = config.merge_size, unit = config.merge_unit();
  const int64_t side = config.window_size / merge / config.patch_size;
  for (const auto& grid : grids) {
    HONE_CHECK(grid.height % merge == 0 && grid.width % merge == 0, "a grid of {} x {} patches", grid.height, grid.width);
    for (int64_t frame = 0; frame < grid.frames; ++frame) {
      const auto first = layout.patches / unit;
      append_frame(grid, merge, places);
      layout.frames.append(grid.height * grid.width + (config.has_class_token ? 1 : 0));
      layout.patches += grid.height * grid.width;
      if (config.window_size > 0)
        append_windows(grid.height / merge, grid.width / merge, side, first, unit, order, layout.windows);
    }
  }
  layout.rows_p = as_tensor(places.rows);
  layout.columns_p = as_tensor(places.columns);
  if (config.window_size == 0) return layout;
  layout.order_c = as_tensor(order);
  layout.inverse_c = at::argsort(layout.order_c);
  layout.rows_p = by_cells(layout.rows_p, layout.order_c, unit);
  layout.columns_p = by_cells(layout.columns_p, layout.order_c, unit);
  return layout;
}

LearnedPositions learned_positions(const std::vector<PatchGrid>& grids, const VisionConfig& config) {
  const int64_t side = config.position_grid;
  std::vector<int64_t> rows;
  std::vector<float> weights;
  for (const auto& grid : grids) {
    Places frame;
    append_frame(grid, config.merge_size, frame);
    for (int64_t i = 0; i < grid.frames; ++i)
      for (size_t patch = 0; patch < frame.rows.size(); ++patch) {
        const auto y = between(frame.rows[patch], grid.height, side), x = between(frame.columns[patch], grid.width, side);
        for (size_t a = 0; a < 2; ++a)
          for (size_t b = 0; b < 2; ++b)
            rows.push_back(y.places[a] * side + x.places[b]), weights.push_back(y.weights[a] * x.weights[b]);
      }
  }
  return {as_tensor(rows).view({-1, 4}), at::tensor(weights, at::kFloat).view({-1, 4})};
}

Tensor repeat_frames(const Tensor& rows_pr, int64_t row_size, int64_t channels) {
  const int64_t patches = rows_pr.size(0), repeats = row_size / rows_pr.size(1);
  if (repeats == 1) return rows_pr;
  return rows_pr.view({patches, channels, 1, -1}).expand({patches, channels, repeats, -1}).reshape({patches, row_size});
}

}  // namespace hone::model

#include "hone/model/encoders/vision_layout.h"

#include "hone/base/error.h"

namespace hone::model {
namespace {

struct Places {
  std::vector<int64_t> rows, columns;  // of patches, in the order of merge blocks
};

void append_frame(const PatchGrid& grid, int64_t merge, Places& places) {
  for (int64_t by = 0; by < grid.height; by += merge)
    for (int64_t bx = 0; bx < grid.width; bx += merge)
      for (int64_t y = by; y < by + merge; ++y)
        for (int64_t x = bx; x < bx + merge; ++x) places.rows.push_back(y), places.columns.push_back(x);
}

// The cells of one frame window by window, from the left and from the top; those at the right and the bottom may be smaller.
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

Tensor as_tensor(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

// Patches follow their cells.
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
      const auto first = layout.frames.total() / unit;
      append_frame(grid, merge, places);
      layout.frames.append(grid.height * grid.width);
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

}  // namespace hone::model

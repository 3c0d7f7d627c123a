#include "hone/io/quantized/fp8.h"

#include "hone/base/error.h"

namespace hone::io {
namespace {

constexpr double kLargestFp8 = 448;

// Expands each scale of the grid to the elements it covers.
Tensor over_blocks(const Tensor& grid, int64_t rows, int64_t columns, int64_t block_rows, int64_t block_columns) {
  return grid.repeat_interleave(block_rows, 0).slice(0, 0, rows).repeat_interleave(block_columns, 1).slice(1, 0, columns);
}

}  // namespace

Tensor dequantize_fp8(const Tensor& codes, const Tensor& scales, int64_t block_rows, int64_t block_columns) {
  auto values = codes.to(at::kFloat);
  auto grid = scales.to(at::kFloat);
  bool by_row = grid.dim() == 2 && grid.size(1) == 1 && grid.size(0) == values.size(0);
  if (grid.numel() == 1 || by_row) return values * (by_row ? grid : grid.view({1, 1}));
  return values * over_blocks(grid, values.size(0), values.size(1), block_rows, block_columns);
}

Fp8Weight pack_fp8(const Tensor& weight) {
  auto values = weight.to(at::kFloat);
  int64_t rows = values.size(0), columns = values.size(1);
  auto up = [](int64_t size) { return (size + kFp8Block - 1) / kFp8Block; };
  auto padded = at::constant_pad_nd(values.abs(), {0, up(columns) * kFp8Block - columns, 0, up(rows) * kFp8Block - rows});
  auto largest = padded.view({up(rows), kFp8Block, up(columns), kFp8Block}).amax({1, 3});
  auto scales = at::where(largest > 0, largest / kLargestFp8, at::ones_like(largest));
  auto codes =
      (values / over_blocks(scales, rows, columns, kFp8Block, kFp8Block)).clamp(-kLargestFp8, kLargestFp8).to(at::kFloat8_e4m3fn);
  return {codes, scales};
}

}  // namespace hone::io

#include "hone/ops/cpu/gemm/panel_gemm.h"

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_grid.h"

namespace hone::ops::cpu {

#if defined(__aarch64__)

namespace {

constexpr int64_t kPackedElements = int64_t{4} << 20;  // of the left factor at a time, 16 MB

template <class Pack>
void pack(const Tensor& from, int64_t line_dim, int64_t line, int64_t lines, int64_t step, int64_t depth, Pack function) {
  const PanelSource source{from.stride(line_dim), from.stride(1 - line_dim), lines, depth};
  with_type(from.scalar_type(), [&](auto type) {
    function(from.const_data_ptr<decltype(type)>() + line * source.line_stride + step * source.depth_stride, source);
  });
}

// Rows of the left factor as panels: those of the first kPanelDepth steps, then those of the next.
Tensor packed_rows(const Tensor& a) {
  const int64_t rows = a.size(0), depth = a.size(1), padded = up_to(rows, kPanelRows), slabs = pieces_of(depth, kPanelDepth);
  const int64_t piece = 8 * kPanelRows, pieces = pieces_of(rows, piece);
  auto packed = at::empty({padded * depth}, a.options().dtype(at::kFloat));
  auto* to = packed.mutable_data_ptr<float>();
  parallel_pieces(
      slabs * pieces, std::max<int64_t>(1, 32768 / (piece * std::min(depth, kPanelDepth))), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t step = i / pieces * kPanelDepth, row = i % pieces * piece, steps = std::min(kPanelDepth, depth - step);
          pack(a, 0, row, std::min(piece, rows - row), step, steps, [&](const auto* from, const PanelSource& source) {
            pack_row_panels(from, source, to + step * padded + row * steps);
          });
        }
      });
  return packed;
}

struct Scratch {
  std::vector<float> columns, sums;
};

void compute_block(const PanelBlock& block, const float* rows, int64_t row_count, const Tensor& b, const float* bias,
                   const Tensor& out) {
  thread_local Scratch scratch;
  const int64_t depth = b.size(0), stride = block.stride();
  scratch.columns.resize(static_cast<size_t>(stride * std::min(depth, kPanelDepth)));
  scratch.sums.resize(static_cast<size_t>(up_to(block.rows, kPanelRows) * stride));
  for (int64_t step = 0; step < depth; step += kPanelDepth) {
    const int64_t steps = std::min(kPanelDepth, depth - step);
    pack(b, 1, block.column, block.columns, step, steps,
         [&](const auto* from, const PanelSource& source) { pack_column_panels(from, source, scratch.columns.data()); });
    const float* slab = rows + step * up_to(row_count, kPanelRows) + block.row * steps;
    for (int64_t r = 0; r < block.rows; r += kPanelRows)
      for (int64_t c = 0; c < block.columns; c += kPanelColumns)
        multiply_panels(slab + r * steps, scratch.columns.data() + c * steps, steps, scratch.sums.data() + r * stride + c, stride,
                        step > 0);
  }
  with_type(out.scalar_type(), [&](auto type) {
    auto* to = out.mutable_data_ptr<decltype(type)>() + block.row * out.stride(0) + block.column;
    for (int64_t r = 0; r < block.rows; ++r)
      store_sums(scratch.sums.data() + r * stride, bias ? bias + block.column : nullptr, to + r * out.stride(0), block.columns);
  });
}

// As many rows as are packed at once.
void multiply_rows(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out) {
  const auto packed = packed_rows(a);
  const auto* rows = packed.const_data_ptr<float>();
  const auto* added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  PanelGrid(a.size(0), b.size(1), a.size(1)).for_blocks([&](const PanelBlock& block) {
    compute_block(block, rows, a.size(0), b, added, out);
  });
}

}  // namespace

bool has_panel_gemm() { return true; }

void panel_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out) {
  HONE_CHECK(a.size(1) == b.size(0) && out.size(0) == a.size(0) && out.size(1) == b.size(1),
             "factors {} x {} and {} x {}, product {} x {}", a.size(0), a.size(1), b.size(0), b.size(1), out.size(0),
             out.size(1));
  if (out.numel() == 0) return;
  if (a.size(1) == 0) return void(bias.defined() ? out.copy_(bias.expand_as(out)) : out.zero_());
  auto to = out.stride(1) == 1 ? out : at::empty(out.sizes(), out.options());
  const auto bias32 = bias.defined() ? bias.to(at::kFloat).contiguous() : Tensor();
  const int64_t step = std::max(PanelGrid::kRows, kPackedElements / a.size(1) / PanelGrid::kRows * PanelGrid::kRows);
  for (int64_t row = 0; row < a.size(0); row += step) {
    const int64_t count = std::min(step, a.size(0) - row);
    multiply_rows(a.narrow(0, row, count), b, bias32, to.narrow(0, row, count));
  }
  if (!to.is_same(out)) out.copy_(to);
}

#else

bool has_panel_gemm() { return false; }

void panel_gemm(const Tensor&, const Tensor&, const Tensor&, Tensor) { HONE_CHECK(false, "asked only where has_panel_gemm()"); }

#endif

}  // namespace hone::ops::cpu

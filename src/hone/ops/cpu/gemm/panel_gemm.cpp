#include "hone/ops/cpu/gemm/panel_gemm.h"

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/scratch.h"

namespace hone::ops::cpu {

#if defined(__aarch64__)

namespace {

constexpr int64_t kPackedElements = int64_t{4} << 20;  // rows of the left operand packed at a time, 16 MB

// The compute dtype of a product: float32, to which 16-bit numbers are widened, or bfloat16.
struct FloatPanels {
  using Number = float;
  static constexpr int64_t kSteps = 1;  // adjacent terms of a sum

  template <class Body>
  static void with_numbers(const Tensor& from, Body body) {
    with_type(from.scalar_type(), [&](auto type) { body(from.const_data_ptr<decltype(type)>()); });
  }
  static void multiply(const float* rows, const float* columns, int64_t depth, float* sums, int64_t stride, bool increase) {
    static const auto kMultiply = multiply_panels_here();
    kMultiply(rows, columns, depth, sums, stride, increase);
  }
};
struct Bf16Panels {
  using Number = c10::BFloat16;
  static constexpr int64_t kSteps = kBf16Steps;

  template <class Body>
  static void with_numbers(const Tensor& from, Body body) {
    body(from.const_data_ptr<c10::BFloat16>());
  }
  static void multiply(const Number* rows, const Number* columns, int64_t depth, float* sums, int64_t stride, bool increase) {
    multiply_bf16_panels(rows, columns, depth, sums, stride, increase);
  }
};

template <class Panels, class Pack>
void pack(const Tensor& from, int64_t line_dim, int64_t line, int64_t lines, int64_t step, int64_t depth, Pack function) {
  const PanelSource source{from.stride(line_dim), from.stride(1 - line_dim), lines, depth};
  Panels::with_numbers(from,
                       [&](const auto* all) { function(all + line * source.line_stride + step * source.depth_stride, source); });
}

// Packs rows of the left operand into panels: those of the first kPanelDepth steps, then those of the next.
template <class Panels>
Tensor packed_rows(const Tensor& a) {
  using Number = Panels::Number;
  const int64_t rows = a.size(0), depth = a.size(1), padded = up_to(rows, kPanelRows), slabs = pieces_of(depth, kPanelDepth);
  const int64_t piece = 8 * kPanelRows, pieces = pieces_of(rows, piece);
  auto packed = at::empty({padded * up_to(depth, Panels::kSteps)}, a.options().dtype(c10::CppTypeToScalarType<Number>::value));
  auto* to = packed.template mutable_data_ptr<Number>();
  parallel_pieces(
      slabs * pieces, std::max<int64_t>(1, 32768 / (piece * std::min(depth, kPanelDepth))), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t step = i / pieces * kPanelDepth, row = i % pieces * piece, steps = std::min(kPanelDepth, depth - step);
          pack<Panels>(a, 0, row, std::min(piece, rows - row), step, steps, [&](const auto* from, const PanelSource& source) {
            pack_row_panels(from, source, to + step * padded + row * up_to(steps, Panels::kSteps));
          });
        }
      });
  return packed;
}

template <class Panels>
void compute_block(const PanelBlock& block, const typename Panels::Number* rows, int64_t row_count, const Tensor& b,
                   const float* bias, const Tensor& out) {
  static_assert(kPanelDepth % Panels::kSteps == 0);
  thread_local std::vector<typename Panels::Number> kept_columns;
  thread_local std::vector<float> kept_sums;
  const int64_t depth = b.size(0), stride = block.stride();
  auto* columns = grown(kept_columns, stride * std::min(up_to(depth, Panels::kSteps), kPanelDepth));
  auto* sums = grown(kept_sums, up_to(block.rows, kPanelRows) * stride);
  for (int64_t step = 0; step < depth; step += kPanelDepth) {
    const int64_t steps = std::min(kPanelDepth, depth - step), packed = up_to(steps, Panels::kSteps);
    pack<Panels>(b, 1, block.column, block.columns, step, steps,
                 [&](const auto* from, const PanelSource& source) { pack_column_panels(from, source, columns); });
    const auto* slab = rows + step * up_to(row_count, kPanelRows) + block.row * packed;
    for (int64_t r = 0; r < block.rows; r += kPanelRows)
      for (int64_t c = 0; c < block.columns; c += kPanelColumns)
        Panels::multiply(slab + r * packed, columns + c * packed, packed, sums + r * stride + c, stride, step > 0);
  }
  with_type(out.scalar_type(), [&](auto type) {
    auto* to = out.mutable_data_ptr<decltype(type)>() + block.row * out.stride(0) + block.column;
    for (int64_t r = 0; r < block.rows; ++r)
      store_sums(sums + r * stride, bias ? bias + block.column : nullptr, to + r * out.stride(0), block.columns);
  });
}

// The number of rows packed at once.
template <class Panels>
void multiply_rows(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out) {
  const auto packed = packed_rows<Panels>(a);
  const auto* rows = packed.template const_data_ptr<typename Panels::Number>();
  const auto* added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  PanelGrid(a.size(0), b.size(1), a.size(1)).for_blocks([&](const PanelBlock& block) {
    compute_block<Panels>(block, rows, a.size(0), b, added, out);
  });
}

bool in_bf16(const Tensor& a, const Tensor& b) {
  return device::cpu_features().arm_bf16 && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16;
}

}  // namespace

MultiplyPanels multiply_panels_here() {
  return device::cpu_features().sve_bytes == 32 ? multiply_panels_sve256 : multiply_panels;
}

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
    const auto multiply = in_bf16(a, b) ? multiply_rows<Bf16Panels> : multiply_rows<FloatPanels>;
    multiply(a.narrow(0, row, count), b, bias32, to.narrow(0, row, count));
  }
  if (!to.is_same(out)) out.copy_(to);
}

#else

bool has_panel_gemm() { return false; }

void panel_gemm(const Tensor&, const Tensor&, const Tensor&, Tensor) { HONE_CHECK(false, "asked only where has_panel_gemm()"); }

#endif

}  // namespace hone::ops::cpu

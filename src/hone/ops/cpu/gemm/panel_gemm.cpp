#include "hone/ops/cpu/gemm/panel_gemm.h"

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

#if defined(__aarch64__)
constexpr bool kOnArm = true;
#else
constexpr bool kOnArm = false;
#endif

constexpr int64_t kPackedElements = int64_t{4} << 20;  // rows of the left operand packed at a time, 16 MB

// The compute dtype of a product: float32, to which 16-bit numbers are widened, or bfloat16.
struct FloatPanels {
  using Number = float;
  static constexpr int64_t kSteps = 1;  // adjacent terms of a sum

  template <class Body>
  static void with_numbers(const Tensor& from, Body body) {
    with_type(from.scalar_type(), [&](auto type) { body(from.const_data_ptr<decltype(type)>()); });
  }
  static auto multiply_here(int64_t columns) { return multiply_panels_here(columns); }
};
struct Bf16Panels {
  using Number = c10::BFloat16;
  static constexpr int64_t kSteps = kBf16Steps;

  template <class Body>
  static void with_numbers(const Tensor& from, Body body) {
    body(from.const_data_ptr<c10::BFloat16>());
  }
  static auto multiply_here(int64_t) { return multiply_bf16_panels; }
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

// Where sums go: out = sums + bias.
struct StoredSums {
  const Tensor& out;
  const float* bias;

  template <class T>
  void put(const float* sums, int64_t stride, const PanelBlock& block, T* to) const {
    for (int64_t r = 0; r < block.rows; ++r)
      store_sums(sums + r * stride, bias ? bias + block.column : nullptr, to + r * out.stride(0), block.columns);
  }
};

// Or: out = [out +] scale * mask * sums.
struct UpdatedSums {
  const Tensor& out;
  float scale;
  const Tensor& mask;
  bool adds;

  template <class T>
  void put(const float* sums, int64_t stride, const PanelBlock& block, T* to) const {
    const float* kept = mask.defined() ? mask.const_data_ptr<float>() + block.row * mask.stride(0) + block.column : nullptr;
    for (int64_t r = 0; r < block.rows; ++r)
      update_span(sums + r * stride, scale, kept ? kept + r * mask.stride(0) : nullptr, adds, to + r * out.stride(0),
                  block.columns);
  }
};

// pack_columns(column, columns, step, steps, to) makes panels of a part of the right operand, [depth, …]. `rows`: panels of all
// `row_count` rows of the left one; the block's are stored `offset` rows further down.
template <class Panels, class PackColumns, class Sums>
void compute_block(PanelBlock block, const typename Panels::Number* rows, int64_t row_count, int64_t offset, int64_t depth,
                   PackColumns pack_columns, const Sums& stored) {
  static_assert(kPanelDepth % Panels::kSteps == 0);
  thread_local AlignedVector<typename Panels::Number> kept_columns;
  thread_local AlignedVector<float> kept_sums;
  const int64_t stride = block.stride();
  const auto multiply_panel = Panels::multiply_here(kPanelColumns),
             multiply_last = Panels::multiply_here(block.columns - (stride - kPanelColumns));
  auto* columns = grown(kept_columns, stride * std::min(up_to(depth, Panels::kSteps), kPanelDepth));
  auto* sums = grown(kept_sums, up_to(block.rows, kPanelRows) * stride);
  for (int64_t step = 0; step < depth; step += kPanelDepth) {
    const int64_t steps = std::min(kPanelDepth, depth - step), packed = up_to(steps, Panels::kSteps);
    pack_columns(block.column, block.columns, step, steps, columns);
    const auto* slab = rows + step * up_to(row_count, kPanelRows) + block.row * packed;
    for (int64_t r = 0; r < block.rows; r += kPanelRows)
      for (int64_t c = 0; c < block.columns; c += kPanelColumns)
        (c + kPanelColumns < stride ? multiply_panel : multiply_last)(slab + r * packed, columns + c * packed, packed,
                                                                      sums + r * stride + c, stride, step > 0);
  }
  block.row += offset;
  with_type(stored.out.scalar_type(), [&](auto type) {
    stored.put(sums, stride, block,
               stored.out.template mutable_data_ptr<decltype(type)>() + block.row * stored.out.stride(0) + block.column);
  });
}

// As many rows of the left operand at a time as are packed at once.
template <class Panels, class PackColumns, class Sums>
void multiply(const Tensor& a, PackColumns pack_columns, const Sums& stored) {
  const int64_t piece = std::max(PanelGrid::kRows, kPackedElements / a.size(1) / PanelGrid::kRows * PanelGrid::kRows);
  for (int64_t row = 0; row < a.size(0); row += piece) {
    const int64_t count = std::min(piece, a.size(0) - row);
    const auto packed = packed_rows<Panels>(a.narrow(0, row, count));
    const auto* rows = packed.template const_data_ptr<typename Panels::Number>();
    PanelGrid(count, stored.out.size(1), a.size(1)).for_blocks([&](const PanelBlock& block) {
      compute_block<Panels>(block, rows, count, row, a.size(1), pack_columns, stored);
    });
  }
}

template <class Panels, class PackColumns>
void multiply(const Tensor& a, PackColumns pack_columns, const Tensor& bias, const Tensor& out) {
  if (out.numel() == 0) return;
  if (a.size(1) == 0) return void(bias.defined() ? out.copy_(bias.expand_as(out)) : out.zero_());
  auto to = out.stride(1) == 1 ? out : at::empty(out.sizes(), out.options());
  const auto bias32 = bias.defined() ? bias.to(at::kFloat).contiguous() : Tensor();
  multiply<Panels>(a, pack_columns, StoredSums{to, bias.defined() ? bias32.template const_data_ptr<float>() : nullptr});
  if (!to.is_same(out)) out.copy_(to);
}

template <class Panels>
auto columns_of(const Tensor& b) {
  return [&](int64_t column, int64_t columns, int64_t step, int64_t steps, Panels::Number* to) {
    pack<Panels>(b, 1, column, columns, step, steps,
                 [&](const auto* from, const PanelSource& source) { pack_column_panels(from, source, to); });
  };
}

void check_sizes(const Tensor& a, const Tensor& b, const Tensor& out) {
  HONE_CHECK(a.size(1) == b.size(0) && out.size(0) == a.size(0) && out.size(1) == b.size(1),
             "factors {} x {} and {} x {}, product {} x {}", a.size(0), a.size(1), b.size(0), b.size(1), out.size(0),
             out.size(1));
}

}  // namespace

bool has_panel_gemm() {
#if defined(__aarch64__)
  return true;
#else
  static const bool kHas = __builtin_cpu_supports("x86-64-v3");
  return kHas;
#endif
}

bool prefers_panel_gemm(at::ScalarType type) {
  if constexpr (kOnArm) return type == at::kFloat || type == at::kBFloat16;
#if defined(__x86_64__)
  static const bool kMklWithoutAvx512 = __builtin_cpu_supports("x86-64-v4") && !__builtin_cpu_is("intel");
  return kMklWithoutAvx512 && type == at::kFloat;
#endif
}

void panel_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out) {
  check_sizes(a, b, out);
  if constexpr (kOnArm)
    if (device::cpu_features().arm_bf16 && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16)
      return multiply<Bf16Panels>(a, columns_of<Bf16Panels>(b), bias, out);
  multiply<FloatPanels>(a, columns_of<FloatPanels>(b), bias, out);
}

void panel_gemm(const Tensor& a, const PackColumns& pack_columns, const Tensor& bias, Tensor out) {
  multiply<FloatPanels>(a, pack_columns, bias, out);
}

void panel_gemm(const Tensor& a, const Tensor& b, const PanelUpdate& update, Tensor out) {
  check_sizes(a, b, out);
  HONE_CHECK(out.stride(1) == 1 && a.size(1) > 0, "strides {} of {} x {}", out.strides(), out.size(0), out.size(1));
  if (out.numel() > 0)
    multiply<FloatPanels>(a, columns_of<FloatPanels>(b),
                          UpdatedSums{out, static_cast<float>(update.scale), update.mask, update.adds});
}

}  // namespace hone::ops::cpu

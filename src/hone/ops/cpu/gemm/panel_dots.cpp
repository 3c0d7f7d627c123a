#include "hone/ops/cpu/gemm/panel_dots.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/scratch.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kSlabInputs = 1024;  // at a time: one panel of each operand stays in the L1 cache

struct ColumnPanels {
  AlignedVector<int32_t> words;
  AlignedVector<float> scales;
};

// body(panel, its first line, its line count) for panels of P lines.
template <int64_t P, class Body>
void for_panels(int64_t begin, int64_t end, Body body) {
  for (int64_t line = begin; line < end; line += P) body((line - begin) / P, line, std::min(P, end - line));
}

// The first row of each panel and its line count, shared among threads.
template <class Body>
void for_row_panels(int64_t rows, int64_t grain, Body body) {
  parallel_pieces(pieces_of(rows, kPanelRows), std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
    for_panels<kPanelRows>(begin * kPanelRows, std::min(rows, end * kPanelRows),
                           [&](int64_t, int64_t row, int64_t lines) { body(row, lines); });
  });
}

class Int8Panels {
 public:
  static constexpr int64_t kGroup = kSplitGroup, kSlab = kSlabInputs / kGroup, kColumnWords = kInt8ColumnWords;

  Int8Panels(const Int16Activations& x, int64_t rows, const PackedWeight& weight)
      : groups(padded_width(weight.width) / kGroup),
        codes_(weight.codes.const_data_ptr<int32_t>()),
        factors_(weight.scales.const_data_ptr<float>()) {
    static_assert(kInt8RowWords == kSplitWords);
    words_ = at::empty({up_to(rows, kPanelRows) * groups * kInt8RowWords}, at::kInt);
    scales_ = at::empty({up_to(rows, kPanelRows) * groups}, at::kFloat);
    auto* words = words_.mutable_data_ptr<int32_t>();
    auto* scales = scales_.mutable_data_ptr<float>();
    const int64_t stride = groups * kInt8RowWords;
    for_row_panels(rows, 256 / groups, [&](int64_t row, int64_t lines) {
      panel_dot_kernels().pack_int8_rows({x.words + row * stride, stride, lines, 0}, groups, words + row * stride);
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t p = 0; p < kPanelRows; ++p)
          scales[row * groups + g * kPanelRows + p] = p < lines ? x.scales[(row + p) * groups + g] : 0.0f;
    });
  }

  void pack(const PanelBlock& block, int64_t first, int64_t count, ColumnPanels& columns) const {
    for_panels<kPanelColumns>(block.column, block.column + block.columns, [&](int64_t panel, int64_t output, int64_t lines) {
      const int64_t words = groups * kInt8CodeWords;
      panel_dot_kernels().pack_int8_columns({codes_ + output * words, words, lines, first * kInt8CodeWords}, count,
                                            columns.words.data() + panel * count * kColumnWords * kPanelColumns);
    });
  }
  void multiply(int64_t row, int64_t panel, int64_t first, int64_t count, const ColumnPanels& columns, float* sums,
                int64_t stride) const {
    const int64_t at = row * groups + first * kPanelRows;
    panel_dot_kernels().multiply_int8(words_.const_data_ptr<int32_t>() + at * kInt8RowWords, scales_.const_data_ptr<float>() + at,
                                      columns.words.data() + panel * count * kColumnWords * kPanelColumns, count, sums, stride);
  }
  const float* factors() const { return factors_; }  // of the outputs' sums

  int64_t groups;

 private:
  Tensor words_, scales_;
  const int32_t* codes_;
  const float* factors_;
};

class Int4Panels {
 public:
  static constexpr int64_t kGroup = kPackedGroup, kSlab = kSlabInputs / kGroup, kColumnWords = kInt4Words;

  Int4Panels(const QuantizedActivations& x, int64_t rows, const PackedWeight& weight)
      : groups(padded_width(weight.width) / kGroup),
        codes_(weight.codes.const_data_ptr<int32_t>()),
        factors_(weight.scales.const_data_ptr<c10::BFloat16>()) {
    words_ = at::empty({up_to(rows, kPanelRows) * groups * kInt4Words}, at::kInt);
    scales_ = at::empty({2, up_to(rows, kPanelRows) * groups}, at::kFloat);
    auto* words = words_.mutable_data_ptr<int32_t>();
    auto *scales = scales_.mutable_data_ptr<float>(), *sums = scales + scales_.size(1);
    const auto* codes = reinterpret_cast<const int32_t*>(x.codes);
    const int64_t stride = groups * kInt4Words, padded = padded_groups(groups * kGroup);
    for_row_panels(rows, 512 / groups, [&](int64_t row, int64_t lines) {
      panel_dot_kernels().pack_int4_rows({codes + row * stride, stride, lines, 0}, groups, words + row * stride);
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t p = 0; p < kPanelRows; ++p) {
          const bool there = p < lines;
          scales[row * groups + g * kPanelRows + p] = there ? x.scales[((row + p) * groups + g) * kInt4CodeWords] : 0.0f;
          sums[row * groups + g * kPanelRows + p] = there ? x.sums[(row + p) * padded + g] : 0.0f;
        }
    });
  }

  void pack(const PanelBlock& block, int64_t first, int64_t count, ColumnPanels& columns) const {
    auto* scales = grown(columns.scales, block.stride() * count * 2);
    for_panels<kPanelColumns>(block.column, block.column + block.columns, [&](int64_t panel, int64_t output, int64_t lines) {
      const int64_t words = groups * kInt4CodeWords, own = 2 * padded_groups(groups * kGroup);
      panel_dot_kernels().pack_int4_columns({codes_ + output * words, words, lines, first * kInt4CodeWords}, count,
                                            columns.words.data() + panel * count * kInt4Words * kPanelColumns);
      panel_dot_kernels().pack_int4_scales({factors_ + output * own, own, lines, first}, count,
                                           scales + panel * count * 2 * kPanelColumns);
    });
  }
  void multiply(int64_t row, int64_t panel, int64_t first, int64_t count, const ColumnPanels& columns, float* sums,
                int64_t stride) const {
    const int64_t at = row * groups + first * kPanelRows;
    const auto* scales = scales_.const_data_ptr<float>();
    panel_dot_kernels().multiply_int4(words_.const_data_ptr<int32_t>() + at * kInt4Words, scales + at,
                                      scales + scales_.size(1) + at,
                                      columns.words.data() + panel * count * kInt4Words * kPanelColumns,
                                      columns.scales.data() + panel * count * 2 * kPanelColumns, count, sums, stride);
  }
  const float* factors() const { return nullptr; }

  int64_t groups;

 private:
  Tensor words_, scales_;  // the latter with the sums of the inputs' groups
  const int32_t* codes_;
  const c10::BFloat16* factors_;
};

template <class Panels>
Tensor multiply_by_panels(const Panels& panels, int64_t rows, int64_t outputs, const Tensor& bias, at::ScalarType dtype) {
  auto y = at::empty({rows, outputs}, dtype);
  const auto bias32 = bias.defined() ? bias.to(at::kFloat).contiguous() : Tensor();
  const auto* added = bias.defined() ? bias32.const_data_ptr<float>() : nullptr;
  with_type(dtype, [&](auto type) {
    auto* all = y.mutable_data_ptr<decltype(type)>();
    PanelGrid(rows, outputs, panels.groups * Panels::kGroup).for_blocks([&](const PanelBlock& block) {
      thread_local ColumnPanels columns;
      thread_local AlignedVector<float> sums;
      const int64_t stride = block.stride();
      grown(columns.words, stride * Panels::kSlab * Panels::kColumnWords);
      sums.assign(static_cast<size_t>(up_to(block.rows, kPanelRows) * stride), 0.0f);
      for (int64_t first = 0; first < panels.groups; first += Panels::kSlab) {
        const int64_t count = std::min(Panels::kSlab, panels.groups - first);
        panels.pack(block, first, count, columns);
        for (int64_t r = 0; r < block.rows; r += kPanelRows)
          for (int64_t c = 0; c < block.columns; c += kPanelColumns)
            panels.multiply(block.row + r, c / kPanelColumns, first, count, columns, sums.data() + r * stride + c, stride);
      }
      for (int64_t r = 0; r < block.rows; ++r) {
        auto* row = sums.data() + r * stride;
        if (const auto* factors = panels.factors()) scale_outputs(row, factors + block.column, 1, block.columns, stride);
        store_sums(row, added ? added + block.column : nullptr, all + (block.row + r) * outputs + block.column, block.columns);
      }
    });
  });
  return y;
}

}  // namespace

bool has_panel_dots() { return has_int8_dot(); }

Tensor panel_dots_int8(const Int16Activations& x, int64_t rows, const PackedWeight& weight, const Tensor& bias,
                       at::ScalarType dtype) {
  return multiply_by_panels(Int8Panels(x, rows, weight), rows, weight.codes.size(0), bias, dtype);
}

Tensor panel_dots_int4(const QuantizedActivations& x, int64_t rows, const PackedWeight& weight, const Tensor& bias,
                       at::ScalarType dtype) {
  return multiply_by_panels(Int4Panels(x, rows, weight), rows, weight.codes.size(0), bias, dtype);
}

}  // namespace hone::ops::cpu

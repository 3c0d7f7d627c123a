#include "hone/ops/cpu/gemm/panel_dots.h"

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_grid.h"

namespace hone::ops::cpu {

#if defined(__aarch64__)

namespace {

constexpr int64_t kSlabInputs = 1024;  // at a time: one panel of each operand stays in the L1 cache

const int32_t* words_at(const int8_t* bytes) { return reinterpret_cast<const int32_t*>(bytes); }

struct ColumnPanels {
  std::vector<int32_t> words;
  std::vector<float> scales, sums;
};

// body(panel, its first line, its line count) for panels of P lines.
template <int64_t P, class Body>
void for_panels(int64_t begin, int64_t end, Body body) {
  for (int64_t line = begin; line < end; line += P) body((line - begin) / P, line, std::min(P, end - line));
}

class Int8Panels {
 public:
  static constexpr int64_t kGroup = kSplitGroup, kSlab = kSlabInputs / kGroup, kColumnWords = kInt8ColumnWords;

  Int8Panels(const Int16Activations& x, int64_t rows, const PackedWeight& weight)
      : groups(padded_width(weight.width) / kGroup),
        codes_(weight.codes.const_data_ptr<int32_t>()),
        factors_(weight.scales.const_data_ptr<float>()) {
    words_ = at::empty({up_to(rows, kPanelRows) * groups * kInt8RowWords}, at::kInt);
    scales_ = at::empty({up_to(rows, kPanelRows) * groups}, at::kFloat);
    auto* words = words_.mutable_data_ptr<int32_t>();
    auto* scales = scales_.mutable_data_ptr<float>();
    parallel_pieces(pieces_of(rows, kPanelRows), std::max<int64_t>(1, 256 / groups), [&](int64_t begin, int64_t end) {
      for_panels<kPanelRows>(begin * kPanelRows, std::min(rows, end * kPanelRows), [&](int64_t, int64_t row, int64_t lines) {
        auto* to = words + row * groups * kInt8RowWords;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t from = row * groups * kGroup + g * kGroup, stride = groups * kInt8ColumnWords;
          panel_dot_kernels().pack_row_words(words_at(x.high + from), stride, lines, kInt8ColumnWords,
                                             to + g * kInt8RowWords * kPanelRows);
          panel_dot_kernels().pack_row_words(words_at(x.low + from), stride, lines, kInt8ColumnWords,
                                             to + (g * kInt8RowWords + kInt8ColumnWords) * kPanelRows);
          for (int64_t p = 0; p < kPanelRows; ++p)
            scales[row * groups + g * kPanelRows + p] = p < lines ? x.scales[(row + p) * groups + g] : 0.0f;
        }
      });
    });
  }

  void pack(const PanelBlock& block, int64_t first, int64_t count, ColumnPanels& columns) const {
    for_panels<kPanelColumns>(block.column, block.column + block.columns, [&](int64_t panel, int64_t output, int64_t lines) {
      const int64_t words = groups * kColumnWords;
      panel_dot_kernels().pack_int8_columns({codes_ + output * words, words, lines, first * kColumnWords}, count,
                                            columns.words.data() + panel * count * kColumnWords * kPanelColumns);
    });
  }
  void multiply(int64_t row, int64_t panel, int64_t first, int64_t count, const ColumnPanels& columns, float* sums,
                int64_t stride) const {
    const int64_t at = row * groups + first * kPanelRows;
    panel_dot_kernels().multiply_int8(words_.const_data_ptr<int32_t>() + at * kInt8RowWords, scales_.const_data_ptr<float>() + at,
                                      columns.words.data() + panel * count * kColumnWords * kPanelColumns, count, sums, stride);
  }
  float factor(int64_t output) const { return factors_[output]; }

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
    const int64_t width = groups * kGroup, padded = padded_groups(width);
    parallel_pieces(pieces_of(rows, kPanelRows), std::max<int64_t>(1, 512 / groups), [&](int64_t begin, int64_t end) {
      for_panels<kPanelRows>(begin * kPanelRows, std::min(rows, end * kPanelRows), [&](int64_t, int64_t row, int64_t lines) {
        auto* to = words + row * groups * kInt4Words;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t from = row * width + g * kGroup / kPackedBlock * kPackedBlock + g * kGroup % kPackedBlock / 2;
          panel_dot_kernels().pack_row_words(words_at(x.codes + from), width / 4, lines, 4, to + g * kInt4Words * kPanelRows);
          panel_dot_kernels().pack_row_words(words_at(x.codes + from + kPackedBlock / 2), width / 4, lines, 4,
                                             to + (g * kInt4Words + 4) * kPanelRows);
          for (int64_t p = 0; p < kPanelRows; ++p) {
            const bool there = p < lines;
            scales[row * groups + g * kPanelRows + p] = there ? x.scales[(row + p) * width / 8 + g * 4] : 0.0f;
            sums[row * groups + g * kPanelRows + p] = there ? x.sums[(row + p) * padded + g] : 0.0f;
          }
        }
      });
    });
  }

  void pack(const PanelBlock& block, int64_t first, int64_t count, ColumnPanels& columns) const {
    columns.scales.resize(static_cast<size_t>(block.stride() * count * 2));
    for_panels<kPanelColumns>(block.column, block.column + block.columns, [&](int64_t panel, int64_t output, int64_t lines) {
      const int64_t words = groups * 4;
      panel_dot_kernels().pack_int4_columns({codes_ + output * words, words, lines, first * 4}, count,
                                            columns.words.data() + panel * count * kInt4Words * kPanelColumns);
      auto* to = columns.scales.data() + panel * count * 2 * kPanelColumns;
      for (int64_t g = first; g < first + count; ++g, to += 2 * kPanelColumns)
        for (int64_t four = 0; four < kPanelColumns; four += kInterleavedOutputs)
          copy_scales(output + four, lines - four, g, to + four);
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
  float factor(int64_t) const { return 1; }

  int64_t groups;

 private:
  // A group's scales and minimums for four outputs, of which only `lines` exist.
  void copy_scales(int64_t output, int64_t lines, int64_t g, float* to) const {
    const int64_t own = 2 * padded_groups(groups * kGroup);
    const auto* from = factors_ + output * own;
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t p = 0; p < kInterleavedOutputs; ++p) {
        float value = 0;
        if (lines >= kInterleavedOutputs)
          value = from[(g * 2 + which) * kInterleavedOutputs + p];
        else if (p < lines)
          value = from[p * own + (g / kGroupSpan * 2 + which) * kGroupSpan + g % kGroupSpan];
        to[which * kPanelColumns + p] = value;
      }
  }

  Tensor words_, scales_;  // the latter with the sums of the inputs' groups
  const int32_t* codes_;
  const c10::BFloat16* factors_;
};

template <class Panels>
Tensor multiply_by_panels(const Panels& panels, int64_t rows, int64_t outputs) {
  auto y = at::empty({rows, outputs}, at::kFloat);
  auto* all = y.mutable_data_ptr<float>();
  PanelGrid(rows, outputs, panels.groups * Panels::kGroup).for_blocks([&](const PanelBlock& block) {
    thread_local ColumnPanels columns;
    const int64_t stride = block.stride();
    columns.words.resize(static_cast<size_t>(stride * Panels::kSlab * Panels::kColumnWords));
    columns.sums.assign(static_cast<size_t>(up_to(block.rows, kPanelRows) * stride), 0.0f);
    for (int64_t first = 0; first < panels.groups; first += Panels::kSlab) {
      const int64_t count = std::min(Panels::kSlab, panels.groups - first);
      panels.pack(block, first, count, columns);
      for (int64_t r = 0; r < block.rows; r += kPanelRows)
        for (int64_t c = 0; c < block.columns; c += kPanelColumns)
          panels.multiply(block.row + r, c / kPanelColumns, first, count, columns, columns.sums.data() + r * stride + c, stride);
    }
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t c = 0; c < block.columns; ++c)
        all[(block.row + r) * outputs + block.column + c] =
            columns.sums[static_cast<size_t>(r * stride + c)] * panels.factor(block.column + c);
  });
  return y;
}

}  // namespace

bool has_panel_dots() { return has_int8_dot(); }

const PanelDotKernels& panel_dot_kernels() {
  static const auto& kernels = device::cpu_features().int8_matrix ? kSmmlaPanels : kSdotPanels;
  return kernels;
}

Tensor panel_dots_int8(const Int16Activations& x, int64_t rows, const PackedWeight& weight) {
  return multiply_by_panels(Int8Panels(x, rows, weight), rows, weight.codes.size(0));
}

Tensor panel_dots_int4(const QuantizedActivations& x, int64_t rows, const PackedWeight& weight) {
  return multiply_by_panels(Int4Panels(x, rows, weight), rows, weight.codes.size(0));
}

#else

bool has_panel_dots() { return false; }

Tensor panel_dots_int8(const Int16Activations&, int64_t, const PackedWeight&) {
  fail_check("a processor with has_panel_dots()", __FILE__, __LINE__, "another");
}
Tensor panel_dots_int4(const QuantizedActivations&, int64_t, const PackedWeight&) {
  fail_check("a processor with has_panel_dots()", __FILE__, __LINE__, "another");
}

#endif

}  // namespace hone::ops::cpu

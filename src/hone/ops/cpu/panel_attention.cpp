#include "hone/ops/cpu/panel_attention.h"

#include <cmath>
#include <numbers>

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/panel_columns.h"
#include "hone/ops/cpu/visible_keys.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {

namespace {

constexpr int64_t kQueryTile = 8 * kPanelColumns;  // queries of one head at a time
// Keys at a time: the scores of a panel of queries take 9 KB on Arm and 18 KB on x86, in the first-level cache.
constexpr int64_t kKeyBlock = (kPanelColumns > 16 ? 12 : 24) * kPanelRows;

// Heads of keys or values in memory.
template <class T>
struct HeadRows {
  const T* first;
  int64_t head_stride, row_stride;
  const T* row(int64_t head, int64_t i) const { return first + head * head_stride + i * row_stride; }
};

// The keys and values of every head as panels; values are packed per block of keys.
template <class T>
class PackedKeysAndValues {
 public:
  static int64_t room_for_keys(int64_t heads, int64_t keys, int64_t head_dim) {
    return heads * up_to(keys, kKeyBlock) * head_dim;
  }
  static int64_t room_for_values(int64_t heads, int64_t keys, int64_t head_dim) {
    return room_for_keys(heads, keys, up_to(head_dim, kPanelRows));
  }

  PackedKeysAndValues(float* key_panels, float* value_panels, int64_t head_dim)
      : head_dim_(head_dim), width_(up_to(head_dim, kPanelRows)), key_panels_(key_panels), value_panels_(value_panels) {}

  void begin(HeadRows<T> k, HeadRows<T> v, int64_t keys) { k_ = k, v_ = v, keys_ = keys, blocks_ = pieces_of(keys, kKeyBlock); }
  int64_t blocks() const { return blocks_; }  // of each head

  // Block i % blocks() of head i / blocks().
  void pack(int64_t i) {
    const int64_t head = i / blocks_, key = i % blocks_ * kKeyBlock, count = std::min(kKeyBlock, keys_ - key);
    pack_row_panels(k_.row(head, key), PanelSource{k_.row_stride, 1, count, head_dim_}, key_panels_ + i * kKeyBlock * head_dim_);
    pack_row_panels(v_.row(head, key), PanelSource{1, v_.row_stride, head_dim_, count}, value_panels_ + i * kKeyBlock * width_);
  }

  const float* keys(int64_t head, int64_t block) const { return key_panels_ + (head * blocks_ + block) * kKeyBlock * head_dim_; }
  const float* values(int64_t head, int64_t block) const { return value_panels_ + (head * blocks_ + block) * kKeyBlock * width_; }
  KeyRange range(int64_t block) const { return {block * kKeyBlock, std::min((block + 1) * kKeyBlock, keys_)}; }
  int64_t head_dim() const { return head_dim_; }
  int64_t width() const { return width_; }  // head_dim, padded to panels

 private:
  HeadRows<T> k_{}, v_{};
  int64_t keys_ = 0, blocks_ = 0, head_dim_, width_;
  float *key_panels_, *value_panels_;
};

// A thread's memory for a tile of queries.
struct TileBuffers {
  AlignedVector<float> queries, scores, sums, row;
};
TileBuffers& own_buffers() {
  thread_local TileBuffers buffers;
  return buffers;
}

// Up to kQueryTile queries of one head and their online-softmax state: weights relative to the largest score, their total, and
// the weighted values. Scores are base-2 logarithms of weights. A panel of queries at a time are the columns of both products:
// scores are keys times those queries, which leaves them, exponentiated in place, as the panel that the second product reads.
template <class T>
class QueryTile {
 public:
  QueryTile(const PackedKeysAndValues<T>& packed, TileBuffers& buffers)
      : packed_(packed),
        queries_(grown(buffers.queries, kQueryTile * packed.head_dim())),
        scores_(grown(buffers.scores, kKeyBlock * kPanelColumns)),
        sums_(grown(buffers.sums, kQueryTile * packed.width())),
        row_(grown(buffers.row, packed.head_dim())) {}

  // Those from `first` on of a sequence.
  void load(const VisibleKeys& visible, const T* q, int64_t row_stride, int64_t first, float scale) {
    visible_ = visible;
    const int64_t rows = std::min(kQueryTile, visible.queries - first), padded = up_to(rows, kPanelColumns);
    first_ = first, rows_ = rows;
    multiply_last_ = multiply_panels_here(rows - (padded - kPanelColumns));
    pack_column_panels(q + first * row_stride, PanelSource{row_stride, 1, rows, packed_.head_dim()}, queries_);
    scale_row(queries_, padded * packed_.head_dim(), scale * std::numbers::log2e_v<float>);
    std::fill_n(sums_, padded * packed_.width(), 0.0f);
    std::fill_n(peaks_, padded, kNone);
    std::fill_n(totals_, padded, 0.0f);
  }

  void attend_to_keys(int64_t key_head) {
    const auto seen = keys_of_rows(visible_, first_, first_ + rows_);
    for (int64_t block = seen.begin / kKeyBlock; block * kKeyBlock < seen.end; ++block)
      for (int64_t panel = 0; panel < rows_; panel += kPanelColumns) attend_to_block(key_head, block, panel);
  }

  void store(T* out, int64_t row_stride, float* logsumexp) {
    for (int64_t panel = 0; panel < rows_; panel += kPanelColumns) {
      float* sums = sums_ + panel * packed_.width();
      PanelColumns factors;
      for (int64_t j = 0; j < kPanelColumns; ++j) factors.of[j] = 1 / totals_[panel + j];
      scale_columns(sums, packed_.head_dim(), factors);
      for (int64_t row = panel; row < std::min(panel + kPanelColumns, rows_); ++row) {
        for (int64_t i = 0; i < packed_.head_dim(); ++i) row_[i] = sums[i * kPanelColumns + row - panel];
        store_sums(row_, nullptr, out + (first_ + row) * row_stride, packed_.head_dim());
        if (logsumexp) logsumexp[first_ + row] = (peaks_[row] + std::log2(totals_[row])) * std::numbers::ln2_v<float>;
      }
    }
  }

 private:
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  // The queries of a panel from `panel` on times a block of keys.
  void attend_to_block(int64_t key_head, int64_t block, int64_t panel) {
    const auto keys = packed_.range(block);
    const int64_t last = std::min(panel + kPanelColumns, rows_);
    auto seen = overlap(keys_of_rows(visible_, first_ + panel, first_ + last), keys);
    if (seen.empty()) return;
    seen.begin = seen.begin / kPanelRows * kPanelRows;  // so that lanes add up the same keys whatever the panel sees
    const int64_t begin = seen.begin - keys.begin, count = seen.end - seen.begin, depth = packed_.head_dim();
    float* scores = scores_ + begin * kPanelColumns;
    const MultiplyPanels multiply = last - panel < kPanelColumns ? multiply_last_ : multiply_;
    for (int64_t key = 0; key < count; key += kPanelRows)
      multiply(packed_.keys(key_head, block) + (begin + key) * depth, queries_ + panel * depth, depth,
               scores + key * kPanelColumns, kPanelColumns, false);
    for (int64_t row = panel; row < last; ++row) hide(row, seen, scores + row - panel);
    exponentiate(panel, scores, count);
    for (int64_t c = 0; c < packed_.width(); c += kPanelRows)
      multiply(packed_.values(key_head, block) + c * (keys.end - keys.begin) + begin * kPanelRows, scores, count,
               sums_ + panel * packed_.width() + c * kPanelColumns, kPanelColumns, true);
  }

  // Scores of keys among `computed` that the query does not see become -infinity.
  void hide(int64_t row, KeyRange computed, float* scores) const {
    const auto own = visible_.of(first_ + row);
    auto fill = [&](int64_t begin, int64_t end) {
      for (int64_t key = begin; key < end; ++key) scores[(key - computed.begin) * kPanelColumns] = kNone;
    };
    fill(computed.begin, std::min(own.begin, computed.end));
    fill(std::max(own.end, computed.begin), computed.end);
  }

  // Computes the attention weights from the scores of a panel of queries. Peaks are the largest scores rounded up, so that
  // rescaling is exact.
  void exponentiate(int64_t panel, float* scores, int64_t keys) {
    const auto range = range_of_columns(scores, keys);
    PanelColumns from, shrink;
    bool shrinks = false, is_near = true;
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      float& peak = peaks_[panel + j];
      const float before = peak;
      peak = std::max(peak, std::ceil(range.largest.of[j]));
      from.of[j] = peak == kNone ? 0 : peak;
      shrink.of[j] = before == kNone || before == peak ? 1 : std::exp2(before - peak);
      shrinks |= shrink.of[j] != 1;
      is_near &= range.smallest.of[j] - from.of[j] > kSmallestPower;
      if (std::abs(from.of[j]) <= kLargestPeak) continue;
      for (int64_t key = 0; key < keys; ++key) scores[key * kPanelColumns + j] -= from.of[j];
      from.of[j] = 0;
    }
    if (shrinks) scale_columns(sums_ + panel * packed_.width(), packed_.width(), shrink);
    const auto totals = powers_of_columns(scores, keys, from, is_near);
    for (int64_t j = 0; j < kPanelColumns; ++j) totals_[panel + j] = totals_[panel + j] * shrink.of[j] + totals.of[j];
  }

  const PackedKeysAndValues<T>& packed_;
  VisibleKeys visible_{};
  const MultiplyPanels multiply_ = multiply_panels_here();
  MultiplyPanels multiply_last_ = multiply_;  // of a panel that is not full
  int64_t first_ = 0, rows_ = 0;
  float *queries_, *scores_, *sums_, *row_;
  float peaks_[kQueryTile], totals_[kQueryTile];
};

template <class T>
void attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out, float* logsumexp) {
  const int64_t queries = q.size(0), tiles = pieces_of(queries, kQueryTile), group = shape.heads / shape.kv_heads;
  const VisibleKeys visible{queries, k.size(1), shape.window, shape.causal};
  using Packed = PackedKeysAndValues<T>;
  const auto floats = k.options().dtype(at::kFloat);
  Tensor key_panels = at::empty({Packed::room_for_keys(shape.kv_heads, k.size(1), shape.head_dim)}, floats),
         value_panels = at::empty({Packed::room_for_values(shape.kv_heads, k.size(1), shape.head_dim)}, floats);
  Packed packed(key_panels.mutable_data_ptr<float>(), value_panels.mutable_data_ptr<float>(), shape.head_dim);
  packed.begin({k.const_data_ptr<T>(), k.stride(0), k.stride(1)}, {v.const_data_ptr<T>(), v.stride(0), v.stride(1)}, k.size(1));
  parallel_pieces(shape.kv_heads * packed.blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) packed.pack(i);
  });
  const auto* from = q.const_data_ptr<T>();
  auto* to = out.mutable_data_ptr<T>();
  parallel_pieces(shape.heads * tiles, 1, [&](int64_t begin, int64_t end) {
    QueryTile<T> tile(packed, own_buffers());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tiles, first = i % tiles * kQueryTile;
      tile.load(visible, from + head * shape.head_dim, q.stride(0), first, static_cast<float>(shape.scale));
      tile.attend_to_keys(head / group);
      tile.store(to + head * shape.head_dim, out.stride(0), logsumexp ? logsumexp + head * queries : nullptr);
    }
  });
}

// A thread does a sequence's key head at a time, its keys included.
template <class T>
void attend_within(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape, const Tensor& q,
                   const Tensor& k, const Tensor& v, const Tensor& out, float* normalizers) {
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  int64_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.second);
  const auto *queries = q.const_data_ptr<T>(), *keys = k.const_data_ptr<T>(), *values = v.const_data_ptr<T>();
  auto* to = out.mutable_data_ptr<T>();
  const int64_t q_stride = q.stride(0), k_stride = k.stride(0), v_stride = v.stride(0), out_stride = out.stride(0);
  parallel_pieces(static_cast<int64_t>(sequences.size()) * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
    using Packed = PackedKeysAndValues<T>;
    const CallBuffer key_panels(Packed::room_for_keys(1, longest, d)), value_panels(Packed::room_for_values(1, longest, d));
    Packed packed(key_panels.data(), value_panels.data(), d);
    QueryTile<T> tile(packed, own_buffers());
    for (int64_t i = begin; i < end; ++i) {
      const auto [first, length] = sequences[static_cast<size_t>(i / shape.kv_heads)];
      const int64_t key_head = i % shape.kv_heads;
      const VisibleKeys visible{length, length, shape.window, shape.causal};
      packed.begin({keys + first * k_stride + key_head * d, 0, k_stride}, {values + first * v_stride + key_head * d, 0, v_stride},
                   length);
      for (int64_t block = 0; block < packed.blocks(); ++block) packed.pack(block);
      for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head)
        for (int64_t query = 0; query < length; query += kQueryTile) {
          tile.load(visible, queries + first * q_stride + head * d, q_stride, query, static_cast<float>(shape.scale));
          tile.attend_to_keys(0);
          tile.store(to + first * out_stride + head * d, out_stride, normalizers + first * shape.heads + head * length);
        }
    }
  });
}

}  // namespace

bool has_panel_attention(const Tensor& q) { return has_panel_columns() && (q.scalar_type() == at::kFloat || is_upcast(q)); }

void panel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out,
                     const Tensor& logsumexp) {
  HONE_CHECK(q.stride(1) == 1 && k.stride(2) == 1 && v.stride(2) == 1 && out.stride(1) == 1 && k.size(1) >= q.size(0),
             "{} queries, {} keys", q.size(0), k.size(1));
  with_type(q.scalar_type(), [&](auto type) {
    attend<decltype(type)>(q, k, v, shape, out, logsumexp.defined() ? logsumexp.mutable_data_ptr<float>() : nullptr);
  });
}

void panel_attention_within(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                            const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& normalizers) {
  with_type(q.scalar_type(), [&](auto type) {
    attend_within<decltype(type)>(sequences, shape, q, k, v, out, normalizers.mutable_data_ptr<float>());
  });
}

}  // namespace hone::ops::cpu

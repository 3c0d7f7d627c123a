#include "hone/ops/cpu/panel_attention.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/visible_keys.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {

#if defined(__aarch64__)

namespace {

constexpr int64_t kQueryTile = 8 * kPanelRows;     // queries of one head at a time
constexpr int64_t kKeyBlock = 16 * kPanelColumns;  // keys at a time: a tile's scores take 48 KB

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
    return room_for_keys(heads, keys, up_to(head_dim, kPanelColumns));
  }

  PackedKeysAndValues(float* key_panels, float* value_panels, int64_t head_dim)
      : head_dim_(head_dim), width_(up_to(head_dim, kPanelColumns)), key_panels_(key_panels), value_panels_(value_panels) {}

  void begin(HeadRows<T> k, HeadRows<T> v, int64_t keys) { k_ = k, v_ = v, keys_ = keys, blocks_ = pieces_of(keys, kKeyBlock); }
  int64_t blocks() const { return blocks_; }  // of each head

  // Block i % blocks() of head i / blocks().
  void pack(int64_t i) {
    const int64_t head = i / blocks_, key = i % blocks_ * kKeyBlock, count = std::min(kKeyBlock, keys_ - key);
    pack_column_panels(k_.row(head, key), PanelSource{k_.row_stride, 1, count, head_dim_},
                       key_panels_ + i * kKeyBlock * head_dim_);
    pack_column_panels(v_.row(head, key), PanelSource{1, v_.row_stride, head_dim_, count},
                       value_panels_ + i * kKeyBlock * width_);
  }

  const float* keys(int64_t head, int64_t block) const { return key_panels_ + (head * blocks_ + block) * kKeyBlock * head_dim_; }
  const float* values(int64_t head, int64_t block) const { return value_panels_ + (head * blocks_ + block) * kKeyBlock * width_; }
  KeyRange range(int64_t block) const { return {block * kKeyBlock, std::min((block + 1) * kKeyBlock, keys_)}; }
  int64_t head_dim() const { return head_dim_; }
  int64_t width() const { return width_; }  // of a row of sums

 private:
  HeadRows<T> k_{}, v_{};
  int64_t keys_ = 0, blocks_ = 0, head_dim_, width_;
  float *key_panels_, *value_panels_;
};

// Up to kQueryTile queries of one head and their online-softmax state: weights relative to the largest score, their total, and
// the weighted values.
template <class T>
class QueryTile {
 public:
  // For at most `queries` queries.
  QueryTile(const PackedKeysAndValues<T>& packed, int64_t queries)
      : packed_(packed),
        queries_(static_cast<size_t>(most_rows(queries) * packed.head_dim())),
        scores_(static_cast<size_t>(most_rows(queries) * kKeyBlock)),
        weights_(kPanelRows * kKeyBlock),
        sums_(static_cast<size_t>(most_rows(queries) * packed.width())) {}

  // Those from `first` on of a sequence.
  void load(const VisibleKeys& visible, const T* q, int64_t row_stride, int64_t first, float scale) {
    visible_ = visible;
    const int64_t rows = std::min(kQueryTile, visible.queries - first);
    first_ = first, rows_ = rows;
    pack_row_panels(q + first * row_stride, PanelSource{row_stride, 1, rows, packed_.head_dim()}, queries_.data());
    scale_row(queries_.data(), up_to(rows, kPanelRows) * packed_.head_dim(), scale);
    std::fill_n(sums_.begin(), up_to(rows, kPanelRows) * packed_.width(), 0.0f);
    std::fill_n(peaks_, kQueryTile, -std::numeric_limits<float>::infinity());
    std::fill_n(totals_, kQueryTile, 0.0f);
  }

  void attend_to_keys(int64_t key_head) {
    const auto seen = keys_of_rows(visible_, first_, first_ + rows_);
    for (int64_t block = seen.begin / kKeyBlock; block * kKeyBlock < seen.end; ++block)
      for (int64_t panel = 0; panel < rows_; panel += kPanelRows) attend_to_block(key_head, block, panel);
  }

  void store(T* out, int64_t row_stride, float* logsumexp) {
    for (int64_t row = 0; row < rows_; ++row) {
      float* sums = sums_.data() + row * packed_.width();
      scale_row(sums, packed_.head_dim(), 1 / totals_[row]);
      store_sums(sums, nullptr, out + (first_ + row) * row_stride, packed_.head_dim());
      if (logsumexp) logsumexp[first_ + row] = peaks_[row] + std::log(totals_[row]);
    }
  }

 private:
  static int64_t most_rows(int64_t queries) { return std::min(kQueryTile, up_to(queries, kPanelRows)); }

  // The rows of a panel from `panel` on times a block of keys.
  void attend_to_block(int64_t key_head, int64_t block, int64_t panel) {
    const int64_t last = std::min(panel + kPanelRows, rows_);
    const auto keys = packed_.range(block);
    const auto seen = overlap(keys_of_rows(visible_, first_ + panel, first_ + last), keys);
    if (seen.empty()) return;
    const int64_t begin = seen.begin - keys.begin, end = seen.end - keys.begin, depth = packed_.head_dim();
    for (int64_t c = begin / kPanelColumns * kPanelColumns; c < end; c += kPanelColumns)
      multiply_(queries_.data() + panel * depth, packed_.keys(key_head, block) + c * depth, depth,
                scores_.data() + panel * kKeyBlock + c, kKeyBlock, false);
    for (int64_t row = panel; row < last; ++row) {
      const auto own = overlap(visible_.of(first_ + row), keys);
      exponentiate(row, {own.begin - keys.begin, own.end - keys.begin}, {begin, end});
    }
    pack_row_panels(scores_.data() + panel * kKeyBlock + begin, PanelSource{kKeyBlock, 1, last - panel, end - begin},
                    weights_.data());
    for (int64_t c = 0; c < packed_.width(); c += kPanelColumns)
      multiply_(weights_.data(), packed_.values(key_head, block) + c * (keys.end - keys.begin) + begin * kPanelColumns,
                end - begin, sums_.data() + panel * packed_.width() + c, packed_.width(), true);
  }

  // Turns a row's scores of the keys `own` into weights; the others among `computed` become zero.
  void exponentiate(int64_t row, KeyRange own, KeyRange computed) {
    float* scores = scores_.data() + row * kKeyBlock;
    if (own.empty()) return void(std::fill(scores + computed.begin, scores + computed.end, 0.0f));
    std::fill(scores + computed.begin, scores + own.begin, 0.0f);
    std::fill(scores + own.end, scores + computed.end, 0.0f);
    const float peak = std::max(peaks_[row], max_of_row(scores + own.begin, own.end - own.begin));
    const float shrink = std::exp(peaks_[row] - peak);
    if (shrink != 1) scale_row(sums_.data() + row * packed_.width(), packed_.width(), shrink);
    totals_[row] = totals_[row] * shrink + exponentials_in_place(scores + own.begin, own.end - own.begin, peak);
    peaks_[row] = peak;
  }

  const PackedKeysAndValues<T>& packed_;
  VisibleKeys visible_{};
  const MultiplyPanels multiply_ = multiply_panels_here();
  int64_t first_ = 0, rows_ = 0;
  std::vector<float> queries_, scores_, weights_, sums_;
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
    QueryTile<T> tile(packed, queries);
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
    std::vector<float> key_panels(static_cast<size_t>(Packed::room_for_keys(1, longest, d))),
        value_panels(static_cast<size_t>(Packed::room_for_values(1, longest, d)));
    Packed packed(key_panels.data(), value_panels.data(), d);
    QueryTile<T> tile(packed, longest);
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

bool has_panel_attention(const Tensor& q) { return prefers_panel_gemm() && (q.scalar_type() == at::kFloat || is_upcast(q)); }

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

#else

bool has_panel_attention(const Tensor&) { return false; }

void panel_attention_within(const std::vector<std::pair<int64_t, int64_t>>&, const AttentionShape&, const Tensor&, const Tensor&,
                            const Tensor&, const Tensor&, const Tensor&) {
  HONE_CHECK(false, "asked only where has_panel_attention()");
}

void panel_attention(const Tensor&, const Tensor&, const Tensor&, const AttentionShape&, const Tensor&, const Tensor&) {
  HONE_CHECK(false, "asked only where has_panel_attention()");
}

#endif

}  // namespace hone::ops::cpu

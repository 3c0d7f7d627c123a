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

// The keys and values of every head as panels; values are packed per block of keys.
template <class T>
class PackedKeysAndValues {
 public:
  PackedKeysAndValues(const Tensor& k, const Tensor& v)
      : keys_(k.size(1)), head_dim_(k.size(2)), width_(up_to(head_dim_, kPanelColumns)), blocks_(pieces_of(keys_, kKeyBlock)) {
    const auto floats = k.options().dtype(at::kFloat);
    key_panels_ = at::empty({k.size(0) * blocks_ * kKeyBlock * head_dim_}, floats);
    value_panels_ = at::empty({k.size(0) * blocks_ * kKeyBlock * width_}, floats);
    auto *to_keys = key_panels_.mutable_data_ptr<float>(), *to_values = value_panels_.mutable_data_ptr<float>();
    const auto *from_keys = k.const_data_ptr<T>(), *from_values = v.const_data_ptr<T>();
    parallel_pieces(k.size(0) * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t head = i / blocks_, key = i % blocks_ * kKeyBlock, count = std::min(kKeyBlock, keys_ - key);
        pack_column_panels(from_keys + head * k.stride(0) + key * k.stride(1), PanelSource{k.stride(1), 1, count, head_dim_},
                           to_keys + i * kKeyBlock * head_dim_);
        pack_column_panels(from_values + head * v.stride(0) + key * v.stride(1), PanelSource{1, v.stride(1), head_dim_, count},
                           to_values + i * kKeyBlock * width_);
      }
    });
  }

  const float* keys(int64_t head, int64_t block) const {
    return key_panels_.const_data_ptr<float>() + (head * blocks_ + block) * kKeyBlock * head_dim_;
  }
  const float* values(int64_t head, int64_t block) const {
    return value_panels_.const_data_ptr<float>() + (head * blocks_ + block) * kKeyBlock * width_;
  }
  KeyRange range(int64_t block) const { return {block * kKeyBlock, std::min((block + 1) * kKeyBlock, keys_)}; }
  int64_t head_dim() const { return head_dim_; }
  int64_t width() const { return width_; }  // of a row of sums

 private:
  int64_t keys_, head_dim_, width_, blocks_;
  Tensor key_panels_, value_panels_;
};

// Up to kQueryTile queries of one head and their online-softmax state: weights relative to the largest score, their total, and
// the weighted values.
template <class T>
class QueryTile {
 public:
  QueryTile(const PackedKeysAndValues<T>& packed, const VisibleKeys& visible)
      : packed_(packed),
        visible_(visible),
        queries_(static_cast<size_t>(most_rows() * packed.head_dim())),
        scores_(static_cast<size_t>(most_rows() * kKeyBlock)),
        weights_(kPanelRows * kKeyBlock),
        sums_(static_cast<size_t>(most_rows() * packed.width())) {}

  void load(const T* q, int64_t row_stride, int64_t first, int64_t rows, float scale) {
    first_ = first, rows_ = rows;
    pack_row_panels(q + first * row_stride, PanelSource{row_stride, 1, rows, packed_.head_dim()}, queries_.data());
    scale_row(queries_.data(), up_to(rows, kPanelRows) * packed_.head_dim(), scale);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
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
  int64_t most_rows() const { return std::min(kQueryTile, up_to(visible_.queries, kPanelRows)); }

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
  const VisibleKeys& visible_;
  const MultiplyPanels multiply_ = multiply_panels_here();
  int64_t first_ = 0, rows_ = 0;
  std::vector<float> queries_, scores_, weights_, sums_;
  float peaks_[kQueryTile], totals_[kQueryTile];
};

template <class T>
void attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out, float* logsumexp) {
  const int64_t queries = q.size(0), tiles = pieces_of(queries, kQueryTile), group = shape.heads / shape.kv_heads;
  const VisibleKeys visible{queries, k.size(1), shape.window, shape.causal};
  const PackedKeysAndValues<T> packed(k, v);
  const auto* from = q.const_data_ptr<T>();
  auto* to = out.mutable_data_ptr<T>();
  parallel_pieces(shape.heads * tiles, 1, [&](int64_t begin, int64_t end) {
    QueryTile<T> tile(packed, visible);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tiles, first = i % tiles * kQueryTile;
      tile.load(from + head * shape.head_dim, q.stride(0), first, std::min(kQueryTile, queries - first),
                static_cast<float>(shape.scale));
      tile.attend_to_keys(head / group);
      tile.store(to + head * shape.head_dim, out.stride(0), logsumexp ? logsumexp + head * queries : nullptr);
    }
  });
}

}  // namespace

bool has_panel_attention(const Tensor& q) { return has_panel_gemm() && (q.scalar_type() == at::kFloat || is_upcast(q)); }

void panel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out,
                     const Tensor& logsumexp) {
  HONE_CHECK(q.stride(1) == 1 && k.stride(2) == 1 && v.stride(2) == 1 && out.stride(1) == 1 && k.size(1) >= q.size(0),
             "{} queries, {} keys", q.size(0), k.size(1));
  with_type(q.scalar_type(), [&](auto type) {
    attend<decltype(type)>(q, k, v, shape, out, logsumexp.defined() ? logsumexp.mutable_data_ptr<float>() : nullptr);
  });
}

#else

bool has_panel_attention(const Tensor&) { return false; }

void panel_attention(const Tensor&, const Tensor&, const Tensor&, const AttentionShape&, const Tensor&, const Tensor&) {
  HONE_CHECK(false, "asked only where has_panel_attention()");
}

#endif

}  // namespace hone::ops::cpu

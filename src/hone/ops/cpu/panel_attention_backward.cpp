// The gradient of panel_attention.h. Weights are computed again from the scores and their logsumexp: P = exp(S - logsumexp). Then
// dV = Pᵀ dO, dS = P (dO Vᵀ - rows of dO · O), dQ = dS K, dK = dSᵀ Q.
#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/panel_attention.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/visible_keys.h"

namespace hone::ops::cpu {

#if defined(__aarch64__)

namespace {

constexpr int64_t kGradientRows = 8 * kPanelRows;      // queries at a time
constexpr int64_t kGradientKeys = 16 * kPanelColumns;  // keys at a time: weights and their gradient take 96 KB

// One head of one sequence. Rows are `stride`, those of keys and values `key_stride` elements apart.
template <class T>
struct HeadOfSequence {
  const T *q, *k, *v, *dout;
  int64_t stride, key_stride;
  const float *logsumexp, *rows_dot;
  T* dq;
  float *dk, *dv;
  int64_t sum_stride;  // of dk and dv
  bool accumulates;    // dk and dv are added to, not overwritten
};

// Computes one head at a time, in its own buffers.
template <class T>
class HeadGradient {
 public:
  explicit HeadGradient(const AttentionShape& shape)
      : shape_(shape),
        depth_(shape.head_dim),
        width_(up_to(shape.head_dim, kPanelColumns)),
        query_rows_(floats(kGradientRows * depth_)),
        dout_rows_(floats(kGradientRows * depth_)),
        query_columns_(floats(kGradientRows * width_)),
        dout_columns_(floats(kGradientRows * width_)),
        keys_(floats(kGradientKeys * depth_)),
        values_(floats(kGradientKeys * depth_)),
        key_columns_(floats(kGradientKeys * width_)),
        weights_(floats(kGradientRows * kGradientKeys)),
        gradients_(floats(kGradientRows * kGradientKeys)),
        packed_(floats(kGradientRows * kGradientKeys)),
        dk_(floats((kGradientKeys + kPanelRows) * width_)),
        dv_(floats((kGradientKeys + kPanelRows) * width_)) {}

  void compute(const HeadOfSequence<T>& head, int64_t length) {
    head_ = head;
    visible_ = {length, length, shape_.window, shape_.causal};
    dq_.assign(static_cast<size_t>(up_to(length, kPanelRows) * width_), 0.0f);
    for (int64_t key = 0; key < length; key += kGradientKeys) add_block({key, std::min(key + kGradientKeys, length)});
    for (int64_t row = 0; row < length; ++row)
      store_sums(dq_.data() + row * width_, nullptr, head_.dq + row * head_.stride, depth_);
  }

 private:
  static std::vector<float> floats(int64_t count) { return std::vector<float>(static_cast<size_t>(count)); }

  void add_block(KeyRange keys) {
    const int64_t count = keys.end - keys.begin;
    const T *k = head_.k + keys.begin * head_.key_stride, *v = head_.v + keys.begin * head_.key_stride;
    pack_column_panels(k, PanelSource{head_.key_stride, 1, count, depth_}, keys_.data());
    pack_column_panels(v, PanelSource{head_.key_stride, 1, count, depth_}, values_.data());
    pack_column_panels(k, PanelSource{1, head_.key_stride, depth_, count}, key_columns_.data());
    std::fill(dk_.begin(), dk_.end(), 0.0f);
    std::fill(dv_.begin(), dv_.end(), 0.0f);
    for (int64_t first = 0; first < visible_.queries; first += kGradientRows) {
      const int64_t rows = std::min(kGradientRows, visible_.queries - first);
      const auto seen = overlap(keys_of_rows(visible_, first, first + rows), keys);
      if (!seen.empty()) add_tile(first, rows, keys, {seen.begin - keys.begin, seen.end - keys.begin});
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = (keys.begin + i) * head_.sum_stride;
      store_sum(dk_.data() + i * width_, head_.dk + place);
      store_sum(dv_.data() + i * width_, head_.dv + place);
    }
  }

  void store_sum(const float* sum, float* to) const {
    if (head_.accumulates)
      add_scaled_row(to, sum, depth_, 1, 1);
    else
      std::copy_n(sum, depth_, to);
  }

  // `seen`: the keys of the block that a query of the tile attends to.
  void add_tile(int64_t first, int64_t rows, KeyRange keys, KeyRange seen) {
    const T *q = head_.q + first * head_.stride, *dout = head_.dout + first * head_.stride;
    pack_row_panels(q, PanelSource{head_.stride, 1, rows, depth_}, query_rows_.data());
    scale_row(query_rows_.data(), up_to(rows, kPanelRows) * depth_, static_cast<float>(shape_.scale));
    pack_row_panels(dout, PanelSource{head_.stride, 1, rows, depth_}, dout_rows_.data());
    pack_column_panels(q, PanelSource{1, head_.stride, depth_, rows}, query_columns_.data());
    pack_column_panels(dout, PanelSource{1, head_.stride, depth_, rows}, dout_columns_.data());
    for (int64_t panel = 0; panel < rows; panel += kPanelRows)
      weigh_panel(first, panel, std::min(panel + kPanelRows, rows), keys, seen);
    add_to_keys(weights_, dout_columns_, rows, seen, dv_);
    add_to_keys(gradients_, query_columns_, rows, seen, dk_);
    for (int64_t panel = 0; panel < rows; panel += kPanelRows)
      add_to_queries(first + panel, panel, std::min(panel + kPanelRows, rows), keys.end - keys.begin, seen);
  }

  // The weights of the rows [panel, end) of the tile, and the gradients of their scores.
  void weigh_panel(int64_t first, int64_t panel, int64_t end, KeyRange keys, KeyRange seen) {
    for (int64_t c = seen.begin / kPanelColumns * kPanelColumns; c < seen.end; c += kPanelColumns) {
      multiply_(query_rows_.data() + panel * depth_, keys_.data() + c * depth_, depth_,
                weights_.data() + panel * kGradientKeys + c, kGradientKeys, false);
      multiply_(dout_rows_.data() + panel * depth_, values_.data() + c * depth_, depth_,
                gradients_.data() + panel * kGradientKeys + c, kGradientKeys, false);
    }
    for (int64_t row = panel; row < end; ++row) {
      float *weights = weights_.data() + row * kGradientKeys, *gradients = gradients_.data() + row * kGradientKeys;
      auto own = overlap(visible_.of(first + row), keys);
      own = own.empty() ? KeyRange{seen.begin, seen.begin} : KeyRange{own.begin - keys.begin, own.end - keys.begin};
      for (float* each : {weights, gradients}) {
        std::fill(each + seen.begin, each + own.begin, 0.0f);
        std::fill(each + own.end, each + seen.end, 0.0f);
      }
      if (own.empty()) continue;
      const int64_t count = own.end - own.begin;
      exponentials_in_place(weights + own.begin, count, head_.logsumexp[first + row]);
      softmax_backward_row(weights + own.begin, gradients + own.begin, count, head_.rows_dot[first + row],
                           static_cast<float>(shape_.scale));
    }
  }

  // sums [keys, width] += factorsᵀ [keys, rows] times columns.
  void add_to_keys(const std::vector<float>& factors, const std::vector<float>& columns, int64_t rows, KeyRange seen,
                   std::vector<float>& sums) {
    const int64_t count = seen.end - seen.begin;
    pack_row_panels(factors.data() + seen.begin, PanelSource{1, kGradientKeys, count, rows}, packed_.data());
    for (int64_t key = 0; key < count; key += kPanelRows)
      for (int64_t c = 0; c < width_; c += kPanelColumns)
        multiply_(packed_.data() + key * rows, columns.data() + c * rows, rows, sums.data() + (seen.begin + key) * width_ + c,
                  width_, true);
  }

  void add_to_queries(int64_t query, int64_t panel, int64_t end, int64_t keys, KeyRange seen) {
    const int64_t count = seen.end - seen.begin;
    pack_row_panels(gradients_.data() + panel * kGradientKeys + seen.begin, PanelSource{kGradientKeys, 1, end - panel, count},
                    packed_.data());
    for (int64_t c = 0; c < width_; c += kPanelColumns)
      multiply_(packed_.data(), key_columns_.data() + c * keys + seen.begin * kPanelColumns, count,
                dq_.data() + query * width_ + c, width_, true);
  }

  const AttentionShape shape_;
  const int64_t depth_, width_;
  const MultiplyPanels multiply_ = multiply_panels_here();
  HeadOfSequence<T> head_{};
  VisibleKeys visible_{};
  std::vector<float> query_rows_, dout_rows_, query_columns_, dout_columns_;  // of a tile of queries
  std::vector<float> keys_, values_, key_columns_;                            // of a block of keys
  std::vector<float> weights_, gradients_, packed_;
  std::vector<float> dk_, dv_, dq_;
};

}  // namespace

void panel_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& x) {
  const int64_t tokens = x.q.size(0), heads = shape.heads, depth = shape.head_dim, group = heads / shape.kv_heads;
  const auto rows_dot = (x.dout.to(at::kFloat) * x.out.to(at::kFloat)).view({tokens, heads, depth}).sum(2).t().contiguous();
  // A task adds up the gradients of the query heads that share a key head. Only if that keeps threads idle, each head is a task
  // with memory for its own gradients.
  const int64_t key_heads = static_cast<int64_t>(sequences.size()) * shape.kv_heads, threads = at::get_num_threads();
  const int64_t joined = key_heads % threads == 0 || key_heads >= 4 * threads ? group : 1, parts = heads / joined;
  const auto dk = at::empty({tokens, parts * depth}, x.q.options().dtype(at::kFloat)), dv = at::empty_like(dk);
  with_type(x.q.scalar_type(), [&](auto type) {
    using T = decltype(type);
    parallel_pieces(static_cast<int64_t>(sequences.size()) * parts, 1, [&](int64_t begin, int64_t end) {
      HeadGradient<T> gradient(shape);
      for (int64_t i = begin * joined; i < end * joined; ++i) {
        const auto [first, length] = sequences[static_cast<size_t>(i / heads)];
        const int64_t head = i % heads, own = (first * heads + head) * depth,
                      key = (first * shape.kv_heads + head / group) * depth, sum = (first * parts + head / joined) * depth;
        gradient.compute({.q = x.q.const_data_ptr<T>() + own,
                          .k = x.k.const_data_ptr<T>() + key,
                          .v = x.v.const_data_ptr<T>() + key,
                          .dout = x.dout.const_data_ptr<T>() + own,
                          .stride = heads * depth,
                          .key_stride = shape.kv_heads * depth,
                          .logsumexp = x.logsumexp.const_data_ptr<float>() + first * heads + head * length,
                          .rows_dot = rows_dot.const_data_ptr<float>() + head * tokens + first,
                          .dq = x.dq.mutable_data_ptr<T>() + own,
                          .dk = dk.mutable_data_ptr<float>() + sum,
                          .dv = dv.mutable_data_ptr<float>() + sum,
                          .sum_stride = parts * depth,
                          .accumulates = head % joined > 0},
                         length);
      }
    });
  });
  // In the order of the heads, as a task adds: results do not depend on the number of threads.
  auto add_up = [&](const Tensor& sums, const Tensor& to, int64_t first, int64_t length) {
    const auto by_part = sums.narrow(0, first, length).view({length, shape.kv_heads, group / joined, depth});
    const auto sum = by_part.select(2, 0);
    for (int64_t part = 1; part < by_part.size(2); ++part) sum.add_(by_part.select(2, part));
    to.narrow(0, first, length).view(sum.sizes()).copy_(sum);
  };
  for (const auto& [first, length] : sequences) add_up(dk, x.dk, first, length), add_up(dv, x.dv, first, length);
}

#else

void panel_attention_backward(const std::vector<std::pair<int64_t, int64_t>>&, const AttentionShape&, const AttentionGradients&) {
  HONE_CHECK(false, "asked only where has_panel_attention()");
}

#endif

}  // namespace hone::ops::cpu

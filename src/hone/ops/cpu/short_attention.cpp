#include "hone/ops/cpu/short_attention.h"

#include <cstring>
#include <numeric>

#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/low_rank.h"
#include "hone/ops/cpu/visible_keys.h"

namespace hone::ops::cpu {
namespace {

// The gradients of one key head and the queries that share it, in buffers of one thread.
class ShortAttentionHead {
 public:
  ShortAttentionHead(const AttentionShape& shape, const AttentionGradients& tensors, int64_t longest)
      : shape_(shape), t_(tensors), d_(shape.head_dim) {
    for (auto* rows : {&q_, &k_, &v_, &dout_, &dq_, &dk_, &dv_}) rows->resize(static_cast<size_t>(longest * d_));
    for (auto* square : {&weights_, &dscores_}) square->resize(static_cast<size_t>(longest * (longest + kRowsAtOnce)));
    sums_.resize(static_cast<size_t>(kRowsAtOnce * d_));
    zeros_.resize(static_cast<size_t>(d_));
  }

  void compute(int64_t begin, int64_t length, int64_t key_head) {
    length_ = length;
    stride_ = (length + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    const int64_t keys = begin * shape_.kv_heads + key_head, group = shape_.heads / shape_.kv_heads;
    load(t_.k, keys * d_, shape_.kv_heads, k_);
    load(t_.v, keys * d_, shape_.kv_heads, v_);
    for (auto* sum : {&dk_, &dv_}) std::fill(sum->begin(), sum->end(), 0.0F);
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) add_head(begin, head);
    store(dk_, t_.dk, keys * d_, shape_.kv_heads);
    store(dv_, t_.dv, keys * d_, shape_.kv_heads);
  }

 private:
  using Rows = std::vector<float>;

  void add_head(int64_t begin, int64_t head) {
    const int64_t place = (begin * shape_.heads + head) * d_;
    load(t_.q, place, shape_.heads, q_);
    load(t_.dout, place, shape_.heads, dout_);
    products(q_, k_, static_cast<float>(shape_.scale), weights_);
    products(dout_, v_, 1, dscores_);
    const float* logsumexp = t_.logsumexp.const_data_ptr<float>() + begin * shape_.heads + head * length_;
    for (int64_t row = 0; row < length_; ++row) differentiate(row, logsumexp[row]);
    add_transposed_product(weights_, dout_, dv_);
    add_transposed_product(dscores_, q_, dk_);
    for (int64_t key = 0; key < length_; key += kRowsAtOnce)
      expand_rows(dscores_.data() + key, stride_, length_, rows_of(k_, key), d_, key > 0, dq_.data());
    store(dq_, t_.dq, place, shape_.heads);
  }

  // A row's scores become weights, and the gradients of weights those of scores; both are zero for keys it does not see.
  void differentiate(int64_t row, float logsumexp) {
    const auto seen = VisibleKeys{length_, length_, shape_.window, shape_.causal}.of(row);
    float *weights = weights_.data() + row * stride_, *dscores = dscores_.data() + row * stride_;
    for (auto* values : {weights, dscores}) {
      std::fill(values, values + seen.begin, 0.0F);
      std::fill(values + seen.end, values + stride_, 0.0F);
    }
    const float total = exponentials_in_place(weights + seen.begin, seen.end - seen.begin, logsumexp);
    // Of these very weights, so that the gradients of the scores add up to zero and rounding does not show in those of the keys.
    const double expected = std::inner_product(weights + seen.begin, weights + seen.end, dscores + seen.begin, 0.0) / total;
    softmax_backward_row(weights + seen.begin, dscores + seen.begin, seen.end - seen.begin, static_cast<float>(expected),
                         static_cast<float>(shape_.scale));
  }

  // One head's rows, the first at `place`.
  void load(const Tensor& from, int64_t place, int64_t heads, Rows& to) const {
    const float* first = from.const_data_ptr<float>() + place;
    for (int64_t row = 0; row < length_; ++row)
      std::memcpy(to.data() + row * d_, first + row * heads * d_, static_cast<size_t>(d_) * sizeof(float));
  }
  void store(const Rows& from, const Tensor& to, int64_t place, int64_t heads) const {
    float* first = to.mutable_data_ptr<float>() + place;
    for (int64_t row = 0; row < length_; ++row)
      std::memcpy(first + row * heads * d_, from.data() + row * d_, static_cast<size_t>(d_) * sizeof(float));
  }

  EightRows rows_of(const Rows& rows, int64_t begin) const {
    EightRows found;
    for (int64_t j = 0; j < kRowsAtOnce; ++j)
      found.rows[j] = begin + j < length_ ? rows.data() + (begin + j) * d_ : zeros_.data();
    return found;
  }
  // scale * x y^T: [length, stride].
  void products(const Rows& x, const Rows& y, float scale, Rows& to) const {
    for (int64_t key = 0; key < length_; key += kRowsAtOnce)
      project_rows(x.data(), length_, d_, rows_of(y, key), scale, to.data() + key, stride_);
  }
  // p^T x.
  void add_transposed_product(const Rows& p, const Rows& x, Rows& to) {
    for (int64_t key = 0; key < length_; key += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, length_ - key);
      outer_rows(p.data() + key, stride_, x.data(), length_, d_, count, sums_.data());
      float* rows = to.data() + key * d_;
      for (int64_t i = 0; i < count * d_; ++i) rows[i] += sums_[static_cast<size_t>(i)];
    }
  }

  const AttentionShape& shape_;
  const AttentionGradients& t_;
  int64_t d_, length_ = 0, stride_ = 0;
  Rows q_, k_, v_, dout_, dq_, dk_, dv_, weights_, dscores_, sums_, zeros_;
};

}  // namespace

void short_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& tensors) {
  int64_t longest = 0;
  for (const auto& [begin, length] : sequences) longest = std::max(longest, length);
  parallel_pieces(static_cast<int64_t>(sequences.size()) * shape.kv_heads, 1, [&](int64_t first, int64_t last) {
    ShortAttentionHead head(shape, tensors, longest);
    for (int64_t i = first; i < last; ++i) {
      const auto [begin, length] = sequences[static_cast<size_t>(i / shape.kv_heads)];
      head.compute(begin, length, i % shape.kv_heads);
    }
  });
}

}  // namespace hone::ops::cpu

#include "hone/ops/cpu/short_attention.h"

#include <cmath>
#include <numeric>

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/low_rank.h"
#include "hone/ops/cpu/visible_keys.h"

namespace hone::ops::cpu {
namespace {

using Sequences = std::vector<std::pair<int64_t, int64_t>>;
using Rows = std::vector<float>;

// One key head and the queries that share it, in float32 buffers of one thread.
class ShortHead {
 protected:
  ShortHead(const AttentionShape& shape, int64_t longest) : shape_(shape), d_(shape.head_dim), longest_(longest) {
    zeros_.resize(static_cast<size_t>(d_));
  }

  Rows rows() const { return Rows(static_cast<size_t>(longest_ * d_)); }
  Rows square() const { return Rows(static_cast<size_t>(longest_ * (longest_ + kRowsAtOnce))); }

  void begin_sequence(int64_t begin, int64_t length) {
    begin_ = begin;
    length_ = length;
    stride_ = (length + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
  }

  // The sequence's rows of one of `heads` heads.
  void load(const Tensor& from, int64_t head, int64_t heads, Rows& to) const {
    with_type(from.scalar_type(), [&](auto type) {
      const auto* first = from.const_data_ptr<decltype(type)>() + (begin_ * heads + head) * d_;
      for (int64_t row = 0; row < length_; ++row) widen_span(first + row * heads * d_, to.data() + row * d_, d_);
    });
  }
  void store(const Rows& from, const Tensor& to, int64_t head, int64_t heads) const {
    with_type(to.scalar_type(), [&](auto type) {
      auto* first = to.mutable_data_ptr<decltype(type)>() + (begin_ * heads + head) * d_;
      for (int64_t row = 0; row < length_; ++row)
        update_span(from.data() + row * d_, 1.0F, nullptr, false, first + row * heads * d_, d_);
    });
  }

  // Keys that the query does not see get a weight of zero.
  KeyRange hide_others(float* weights, int64_t query) const {
    const auto seen = VisibleKeys{length_, length_, shape_.window, shape_.causal}.of(query);
    std::fill(weights, weights + seen.begin, 0.0F);
    std::fill(weights + seen.end, weights + stride_, 0.0F);
    return seen;
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
  // p x: [length, head_dim].
  void weighted_sums(const Rows& p, const Rows& x, Rows& to) const {
    for (int64_t key = 0; key < length_; key += kRowsAtOnce)
      expand_rows(p.data() + key, stride_, length_, rows_of(x, key), d_, key > 0, to.data());
  }

  const AttentionShape& shape_;
  int64_t d_, longest_, begin_ = 0, length_ = 0, stride_ = 0;

 private:
  Rows zeros_;
};

class ShortHeadForward : ShortHead {
 public:
  ShortHeadForward(const AttentionShape& shape, int64_t longest) : ShortHead(shape, longest) {}

  void compute(int64_t begin, int64_t length, int64_t key_head, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& out, float* logsumexp) {
    begin_sequence(begin, length);
    const auto& shape = shape_;
    load(k, key_head, shape.kv_heads, k_);
    load(v, key_head, shape.kv_heads, v_);
    const int64_t group = shape.heads / shape.kv_heads;
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      load(q, head, shape.heads, q_);
      products(q_, k_, static_cast<float>(shape.scale), weights_);
      for (int64_t row = 0; row < length; ++row) logsumexp[begin * shape.heads + head * length + row] = normalize(row);
      weighted_sums(weights_, v_, out_);
      store(out_, out, head, shape.heads);
    }
  }

 private:
  // A row's scores become weights that add up to one. Returns the logarithm of the sum of their exponentials.
  float normalize(int64_t row) {
    float* weights = weights_.data() + row * stride_;
    const auto seen = hide_others(weights, row);
    const int64_t count = seen.end - seen.begin;
    const float peak = max_of_row(weights + seen.begin, count), total = exponentials_in_place(weights + seen.begin, count, peak);
    scale_row(weights + seen.begin, count, 1.0F / total);
    return peak + std::log(total);
  }

  Rows q_ = rows(), k_ = rows(), v_ = rows(), out_ = rows(), weights_ = square();
};

class ShortHeadBackward : ShortHead {
 public:
  ShortHeadBackward(const AttentionShape& shape, const AttentionGradients& tensors, int64_t longest)
      : ShortHead(shape, longest), t_(tensors) {}

  void compute(int64_t begin, int64_t length, int64_t key_head) {
    begin_sequence(begin, length);
    const int64_t kv_heads = shape_.kv_heads, group = shape_.heads / kv_heads;
    load(t_.k, key_head, kv_heads, k_);
    load(t_.v, key_head, kv_heads, v_);
    for (auto* sum : {&dk_, &dv_}) std::fill(sum->begin(), sum->end(), 0.0F);
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) add_head(head);
    store(dk_, t_.dk, key_head, kv_heads);
    store(dv_, t_.dv, key_head, kv_heads);
  }

 private:
  void add_head(int64_t head) {
    const int64_t heads = shape_.heads, length = length_;
    load(t_.q, head, heads, q_);
    load(t_.dout, head, heads, dout_);
    products(q_, k_, static_cast<float>(shape_.scale), weights_);
    products(dout_, v_, 1, dscores_);
    const float* logsumexp = t_.logsumexp.const_data_ptr<float>() + begin_ * heads + head * length;
    for (int64_t row = 0; row < length; ++row) differentiate(row, logsumexp[row]);
    add_transposed_product(weights_, dout_, dv_);
    add_transposed_product(dscores_, q_, dk_);
    weighted_sums(dscores_, k_, dq_);
    store(dq_, t_.dq, head, heads);
  }

  // A row's scores become weights, and the gradients of weights those of scores; both are zero for keys it does not see.
  void differentiate(int64_t row, float logsumexp) {
    float *weights = weights_.data() + row * stride_, *dscores = dscores_.data() + row * stride_;
    const auto seen = hide_others(weights, row);
    hide_others(dscores, row);
    const int64_t count = seen.end - seen.begin;
    const float total = exponentials_in_place(weights + seen.begin, count, logsumexp);
    // Computed from these weights, so that the gradients of the scores add up to zero; otherwise rounding would show in the
    // gradients of the keys.
    const double expected = std::inner_product(weights + seen.begin, weights + seen.end, dscores + seen.begin, 0.0) / total;
    softmax_backward_row(weights + seen.begin, dscores + seen.begin, count, static_cast<float>(expected),
                         static_cast<float>(shape_.scale));
  }

  // p^T x.
  void add_transposed_product(const Rows& p, const Rows& x, Rows& to) {
    const int64_t d = d_;
    for (int64_t key = 0; key < length_; key += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, length_ - key);
      outer_rows(p.data() + key, stride_, x.data(), length_, d, count, sums_.data());
      float* rows = to.data() + key * d;
      for (int64_t i = 0; i < count * d; ++i) rows[i] += sums_[static_cast<size_t>(i)];
    }
  }

  const AttentionGradients& t_;
  Rows q_ = rows(), k_ = rows(), v_ = rows(), dout_ = rows(), dq_ = rows(), dk_ = rows(), dv_ = rows(), weights_ = square(),
       dscores_ = square(), sums_ = Rows(static_cast<size_t>(kRowsAtOnce * d_));
};

// body(head, begin, length, key_head) with a head made by each thread.
template <class Make, class Body>
void for_heads(const Sequences& sequences, int64_t kv_heads, Make make, Body body) {
  int64_t longest = 0;
  for (const auto& [begin, length] : sequences) longest = std::max(longest, length);
  parallel_pieces(static_cast<int64_t>(sequences.size()) * kv_heads, 1, [&](int64_t first, int64_t last) {
    auto head = make(longest);
    for (int64_t i = first; i < last; ++i) {
      const auto [begin, length] = sequences[static_cast<size_t>(i / kv_heads)];
      body(head, begin, length, i % kv_heads);
    }
  });
}

}  // namespace

void short_attention(const Sequences& sequences, const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& out, const Tensor& logsumexp) {
  for_heads(
      sequences, shape.kv_heads, [&](int64_t longest) { return ShortHeadForward(shape, longest); },
      [&](ShortHeadForward& head, int64_t begin, int64_t length, int64_t key_head) {
        head.compute(begin, length, key_head, q, k, v, out, logsumexp.mutable_data_ptr<float>());
      });
}

void short_attention_backward(const Sequences& sequences, const AttentionShape& shape, const AttentionGradients& tensors) {
  for_heads(
      sequences, shape.kv_heads, [&](int64_t longest) { return ShortHeadBackward(shape, tensors, longest); },
      [](ShortHeadBackward& head, int64_t begin, int64_t length, int64_t key_head) { head.compute(begin, length, key_head); });
}

}  // namespace hone::ops::cpu

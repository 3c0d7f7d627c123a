// Operators of npu_fusion_attention, dense and variable-length: forward with the running maximum and sum of the softmax, backward
// from both.
#include "cann_emulator/ops/attention_math.h"

using namespace cann;
using namespace cann::attention;

namespace {

Tensor mask_of(const Tensor& mask, int64_t batch, const Shape& shape) {
  check_compressed(mask, shape.sparse_mode);
  if (!mask.defined() || mask.dim() != 4) return mask;
  return mask[mask.size(0) == 1 ? 0 : batch];
}

// Packed sequences: [length, heads, dim] slices as [heads, length, dim].
void check_ends(const char* name, const Ints& ends, const Tensor& packed) {
  if (!std::is_sorted(ends.begin(), ends.end()))
    throw BadParameter(kParameterInvalid, std::string(name) + " must not decrease: lengths are given as running sums");
  if (ends.empty() || ends.back() != packed.size(0))
    throw BadParameter(kParameterInvalid,
                       c10::str("the last of ", name, " must be the ", packed.size(0), " tokens of the packed tensor"));
}

template <class Act>
void for_each_sequence(const Ints& q_ends, const Ints& k_ends, Act&& act) {
  if (q_ends.size() != k_ends.size())
    throw BadParameter(kParameterInvalid, "actual_seq_qlen and actual_seq_kvlen must have one length");
  for (size_t i = 0; i < q_ends.size(); ++i) {
    int64_t q_start = i ? q_ends[i - 1] : 0, k_start = i ? k_ends[i - 1] : 0;
    if (q_ends[i] > q_start) act(q_start, q_ends[i] - q_start, k_start, k_ends[i] - k_start);
  }
}

void check_packed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Ints& q_ends, const Ints& k_ends,
                  const Shape& shape) {
  check_types(q, k, v), check_compressed(mask, shape.sparse_mode), check_heads(shape.heads, k.size(1), q.size(2));
  check_ends("actual_seq_qlen", q_ends, q), check_ends("actual_seq_kvlen", k_ends, k);
}

Tensor slice(const Tensor& x, int64_t start, int64_t length) { return x.narrow(0, start, length).transpose(0, 1); }

void packed_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Ints& q_ends, const Ints& k_ends,
                    const Shape& shape, Tensor most, Tensor sum, Tensor out) {
  check_packed(q, k, v, mask, q_ends, k_ends, shape);
  for_each_sequence(q_ends, k_ends, [&](int64_t q_start, int64_t queries, int64_t k_start, int64_t keys) {
    Sequence s{to_float32(slice(q, q_start, queries)), to_float32(slice(k, k_start, keys)), to_float32(slice(v, k_start, keys))};
    auto result = forward(s, attention_mask(queries, keys, mask, shape), shape);
    slice(out, q_start, queries).copy_(result.out);
    slice(most, q_start, queries).copy_(result.row_max.expand({-1, -1, 8}));
    slice(sum, q_start, queries).copy_(result.sum.expand({-1, -1, 8}));
  });
}

void packed_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy, const Tensor& mask, const Tensor& most,
                     const Tensor& sum, const Tensor& out, const Ints& q_ends, const Ints& k_ends, const Shape& shape, Tensor dq,
                     Tensor dk, Tensor dv) {
  check_packed(q, k, v, mask, q_ends, k_ends, shape);
  dk.zero_(), dv.zero_(), dq.zero_();
  for_each_sequence(q_ends, k_ends, [&](int64_t q_start, int64_t queries, int64_t k_start, int64_t keys) {
    Sequence s{to_float32(slice(q, q_start, queries)), to_float32(slice(k, k_start, keys)), to_float32(slice(v, k_start, keys))};
    auto result = backward(s, attention_mask(queries, keys, mask, shape), to_float32(slice(dy, q_start, queries)),
                           {to_float32(slice(out, q_start, queries)), slice(most, q_start, queries).narrow(2, 0, 1),
                            slice(sum, q_start, queries).narrow(2, 0, 1)},
                           shape);
    slice(dq, q_start, queries).copy_(result.dq);
    slice(dk, k_start, keys).copy_(result.dk);
    slice(dv, k_start, keys).copy_(result.dv);
  });
}

void refuse_dropout(double keep) {
  if (keep < 1) throw BadParameter(kParameterInvalid, "dropout inside attention is not in the emulated CANN");
}

}  // namespace

ACLNN(FlashAttentionScore, [](Tensor q, Tensor k, Tensor v, Tensor, Tensor, Tensor, Tensor mask, Ints, double scale, double keep,
                              int64_t before, int64_t after, int64_t heads, std::string layout, int64_t, int64_t sparse,
                              Tensor most, Tensor sum, Tensor, Tensor out) {
  refuse_dropout(keep), check_types(q, k, v);
  Shape shape{heads, sparse, before, after, scale};
  int64_t kv_heads = key_heads(q, k, layout, heads);
  check_heads(heads, kv_heads, dense(q, layout, heads).size(3));
  auto dq = dense(q, layout, heads), dk = dense(k, layout, kv_heads), dv = dense(v, layout, kv_heads),
       to = dense(out, layout, heads);
  for (int64_t b = 0; b < dq.size(0); ++b) {
    auto hidden = attention_mask(dq.size(2), dk.size(2), mask_of(mask, b, shape), shape);
    auto result = forward({to_float32(dq[b]), to_float32(dk[b]), to_float32(dv[b])}, hidden, shape);
    to[b].copy_(result.out), most[b].copy_(result.row_max.expand({-1, -1, 8})), sum[b].copy_(result.sum.expand({-1, -1, 8}));
  }
})
ACLNN(FlashAttentionScoreGrad,
      [](Tensor q, Tensor k, Tensor v, Tensor dy, Tensor, Tensor, Tensor, Tensor mask, Tensor most, Tensor sum, Tensor,
         Tensor out, Ints, double scale, double keep, int64_t before, int64_t after, int64_t heads, std::string layout, int64_t,
         int64_t sparse, Tensor dq, Tensor dk, Tensor dv, Tensor) {
        refuse_dropout(keep), check_types(q, k, v);
        Shape shape{heads, sparse, before, after, scale};
        int64_t kv_heads = key_heads(q, k, layout, heads);
        auto at_q = [&](const Tensor& x) { return dense(x, layout, heads); };
        auto at_k = [&](const Tensor& x) { return dense(x, layout, kv_heads); };
        for (int64_t b = 0; b < at_q(q).size(0); ++b) {
          Sequence s{to_float32(at_q(q)[b]), to_float32(at_k(k)[b]), to_float32(at_k(v)[b])};
          auto hidden = attention_mask(s.q.size(1), s.k.size(1), mask_of(mask, b, shape), shape);
          auto result = backward(s, hidden, to_float32(at_q(dy)[b]),
                                 {to_float32(at_q(out)[b]), most[b].narrow(2, 0, 1), sum[b].narrow(2, 0, 1)}, shape);
          at_q(dq)[b].copy_(result.dq), at_k(dk)[b].copy_(result.dk), at_k(dv)[b].copy_(result.dv);
        }
      })
ACLNN(FlashAttentionVarLenScore, [](Tensor q, Tensor k, Tensor v, Tensor, Tensor, Tensor, Tensor mask, Ints, Ints q_ends,
                                    Ints k_ends, double scale, double keep, int64_t before, int64_t after, int64_t heads,
                                    std::string, int64_t, int64_t sparse, Tensor most, Tensor sum, Tensor, Tensor out) {
  refuse_dropout(keep);
  packed_forward(q, k, v, mask, q_ends, k_ends, {heads, sparse, before, after, scale}, most, sum, out);
})
ACLNN(FlashAttentionUnpaddingScoreGrad,
      [](Tensor q, Tensor k, Tensor v, Tensor dy, Tensor, Tensor, Tensor, Tensor mask, Tensor most, Tensor sum, Tensor,
         Tensor out, Ints, Ints q_ends, Ints k_ends, double scale, double keep, int64_t before, int64_t after, int64_t heads,
         std::string, int64_t, int64_t sparse, Tensor dq, Tensor dk, Tensor dv, Tensor) {
        refuse_dropout(keep);
        packed_backward(q, k, v, dy, mask, most, sum, out, q_ends, k_ends, {heads, sparse, before, after, scale}, dq, dk, dv);
      })

// npu_fusion_attention's operators: forward with the running maximum and sum of the softmax, backward from them, dense and variable length.
#include "cann_emulator/pch.h"

using namespace cann;

namespace {

// One sequence's numbers as [heads, length, dim], key heads not yet repeated.
struct Sequence {
  Tensor q, k, v;
};

struct Shape {
  int64_t heads, sparse_mode, before, after;
  double scale;
};

void check_types(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.scalar_type() != k.scalar_type() || q.scalar_type() != v.scalar_type())
    throw BadParameter(kParameterInvalid, "query, key and value must have one data type");
  if (q.scalar_type() == at::kDouble) throw BadParameter(kParameterInvalid, "DT_DOUBLE is not supported by FlashAttentionScore");
}

// True where a pair is hidden: [queries, keys], or as the given mask has it, broadcast over heads. Undefined when nothing is hidden.
Tensor hidden_pairs(int64_t queries, int64_t keys, const Tensor& mask, const Shape& shape) {
  auto row = at::arange(queries).unsqueeze(1), column = at::arange(keys).unsqueeze(0);
  switch (shape.sparse_mode) {
    case 0:
      if (mask.defined()) return mask.to(at::kBool);
      return {};
    case 1:
      return mask.defined() ? mask.to(at::kBool) : Tensor();
    case 2:
      return column > row;
    case 3:
      return column > row + (keys - queries);
    case 4: {
      auto aligned = row + (keys - queries);
      return (column > aligned + shape.after).logical_or(column < aligned - shape.before);
    }
    default:
      throw BadParameter(kParameterInvalid, c10::str("sparse mode ", shape.sparse_mode, " is not in the emulated CANN"));
  }
}

void check_compressed(const Tensor& mask, int64_t sparse_mode) {
  if (sparse_mode < 2 || sparse_mode > 4) return;
  if (!mask.defined() || mask.size(-1) != 2048 || mask.size(-2) != 2048)
    throw BadParameter(kParameterInvalid, "sparse modes 2 to 4 need the compressed 2048 x 2048 atten_mask");
}

Tensor repeated(const Tensor& x, int64_t heads) { return x.size(0) == heads ? x : x.repeat_interleave(heads / x.size(0), 0); }

Tensor scores(const Sequence& s, const Tensor& hidden, const Shape& shape) {
  auto all = at::matmul(s.q, repeated(s.k, shape.heads).transpose(1, 2)) * shape.scale;
  return hidden.defined() ? all.masked_fill(hidden, -1e30) : all;
}

struct Forward {
  Tensor out, most, sum;
};
Forward forward(const Sequence& s, const Tensor& hidden, const Shape& shape) {
  auto all = scores(s, hidden, shape);
  auto most = all.amax(-1, true);
  auto weights = (all - most).exp();
  auto sum = weights.sum(-1, true);
  return {at::matmul(weights / sum, repeated(s.v, shape.heads)), most, sum};
}

struct Backward {
  Tensor dq, dk, dv;
};
Backward backward(const Sequence& s, const Tensor& hidden, const Tensor& dy, const Tensor& out, const Tensor& most, const Tensor& sum,
                  const Shape& shape) {
  auto weights = (scores(s, hidden, shape) - most).exp() / sum;
  auto dweights = at::matmul(dy, repeated(s.v, shape.heads).transpose(1, 2));
  auto dscores = weights * (dweights - (dy * out).sum(-1, true)) * shape.scale;
  auto shared = [&](const Tensor& x, const Tensor& like) {
    return x.size(0) == like.size(0) ? x : x.reshape({like.size(0), -1, x.size(1), x.size(2)}).sum(1);
  };
  return {at::matmul(dscores, repeated(s.k, shape.heads)), shared(at::matmul(dscores.transpose(1, 2), s.q), s.k),
          shared(at::matmul(weights.transpose(1, 2), dy), s.v)};
}

// A dense layout as [batch, heads, length, dim]; the same call on an output gives the view to write into.
Tensor dense(const Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout == "SBH") return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  throw BadParameter(kParameterInvalid, "input layout " + layout + " is not supported");
}

Tensor wide(const Tensor& x) { return x.to(at::kFloat); }

int64_t key_heads(const Tensor& q, const Tensor& k, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return k.size(1);
  if (layout == "BSND") return k.size(2);
  return heads * k.size(2) / q.size(2);
}

Tensor mask_of(const Tensor& mask, int64_t batch, const Shape& shape) {
  check_compressed(mask, shape.sparse_mode);
  if (!mask.defined() || mask.dim() != 4) return mask;
  return mask[mask.size(0) == 1 ? 0 : batch];
}

// Sequences of a packed row: [length, heads, dim] slices as [heads, length, dim].
template <class Act>
void for_each_sequence(const Ints& q_ends, const Ints& k_ends, Act&& act) {
  if (q_ends.size() != k_ends.size()) throw BadParameter(kParameterInvalid, "actual_seq_qlen and actual_seq_kvlen must have one length");
  for (size_t i = 0; i < q_ends.size(); ++i) {
    int64_t q_start = i ? q_ends[i - 1] : 0, k_start = i ? k_ends[i - 1] : 0;
    if (q_ends[i] > q_start) act(q_start, q_ends[i] - q_start, k_start, k_ends[i] - k_start);
  }
}

Tensor slice(const Tensor& x, int64_t start, int64_t length) { return x.narrow(0, start, length).transpose(0, 1); }

void packed_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Ints& q_ends, const Ints& k_ends, const Shape& shape,
                    Tensor most, Tensor sum, Tensor out) {
  check_types(q, k, v), check_compressed(mask, shape.sparse_mode);
  for_each_sequence(q_ends, k_ends, [&](int64_t q_start, int64_t queries, int64_t k_start, int64_t keys) {
    Sequence s{wide(slice(q, q_start, queries)), wide(slice(k, k_start, keys)), wide(slice(v, k_start, keys))};
    auto result = forward(s, hidden_pairs(queries, keys, mask, shape), shape);
    slice(out, q_start, queries).copy_(result.out);
    slice(most, q_start, queries).copy_(result.most.expand({-1, -1, 8}));
    slice(sum, q_start, queries).copy_(result.sum.expand({-1, -1, 8}));
  });
}

void packed_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy, const Tensor& mask, const Tensor& most, const Tensor& sum,
                     const Tensor& out, const Ints& q_ends, const Ints& k_ends, const Shape& shape, Tensor dq, Tensor dk, Tensor dv) {
  check_types(q, k, v), check_compressed(mask, shape.sparse_mode);
  dk.zero_(), dv.zero_(), dq.zero_();
  for_each_sequence(q_ends, k_ends, [&](int64_t q_start, int64_t queries, int64_t k_start, int64_t keys) {
    Sequence s{wide(slice(q, q_start, queries)), wide(slice(k, k_start, keys)), wide(slice(v, k_start, keys))};
    auto result = backward(s, hidden_pairs(queries, keys, mask, shape), wide(slice(dy, q_start, queries)), wide(slice(out, q_start, queries)),
                           slice(most, q_start, queries).narrow(2, 0, 1), slice(sum, q_start, queries).narrow(2, 0, 1), shape);
    slice(dq, q_start, queries).copy_(result.dq);
    slice(dk, k_start, keys).copy_(result.dk);
    slice(dv, k_start, keys).copy_(result.dv);
  });
}

void refuse_dropout(double keep) {
  if (keep < 1) throw BadParameter(kParameterInvalid, "dropout inside attention is not in the emulated CANN");
}

}  // namespace

ACLNN(FlashAttentionScore,
      [](Tensor q, Tensor k, Tensor v, Tensor, Tensor, Tensor, Tensor mask, Ints, double scale, double keep, int64_t before, int64_t after,
         int64_t heads, std::string layout, int64_t, int64_t sparse, Tensor most, Tensor sum, Tensor, Tensor out) {
        refuse_dropout(keep), check_types(q, k, v);
        Shape shape{heads, sparse, before, after, scale};
        int64_t kv_heads = key_heads(q, k, layout, heads);
        auto dq = dense(q, layout, heads), dk = dense(k, layout, kv_heads), dv = dense(v, layout, kv_heads), to = dense(out, layout, heads);
        for (int64_t b = 0; b < dq.size(0); ++b) {
          auto hidden = hidden_pairs(dq.size(2), dk.size(2), mask_of(mask, b, shape), shape);
          auto result = forward({wide(dq[b]), wide(dk[b]), wide(dv[b])}, hidden, shape);
          to[b].copy_(result.out), most[b].copy_(result.most.expand({-1, -1, 8})), sum[b].copy_(result.sum.expand({-1, -1, 8}));
        }
      })
ACLNN(FlashAttentionScoreGrad,
      [](Tensor q, Tensor k, Tensor v, Tensor dy, Tensor, Tensor, Tensor, Tensor mask, Tensor most, Tensor sum, Tensor, Tensor out, Ints,
         double scale, double keep, int64_t before, int64_t after, int64_t heads, std::string layout, int64_t, int64_t sparse, Tensor dq,
         Tensor dk, Tensor dv, Tensor) {
        refuse_dropout(keep), check_types(q, k, v);
        Shape shape{heads, sparse, before, after, scale};
        int64_t kv_heads = key_heads(q, k, layout, heads);
        auto at_q = [&](const Tensor& x) { return dense(x, layout, heads); };
        auto at_k = [&](const Tensor& x) { return dense(x, layout, kv_heads); };
        for (int64_t b = 0; b < at_q(q).size(0); ++b) {
          Sequence s{wide(at_q(q)[b]), wide(at_k(k)[b]), wide(at_k(v)[b])};
          auto hidden = hidden_pairs(s.q.size(1), s.k.size(1), mask_of(mask, b, shape), shape);
          auto result = backward(s, hidden, wide(at_q(dy)[b]), wide(at_q(out)[b]), most[b].narrow(2, 0, 1), sum[b].narrow(2, 0, 1), shape);
          at_q(dq)[b].copy_(result.dq), at_k(dk)[b].copy_(result.dk), at_k(dv)[b].copy_(result.dv);
        }
      })
ACLNN(FlashAttentionVarLenScore,
      [](Tensor q, Tensor k, Tensor v, Tensor, Tensor, Tensor, Tensor mask, Ints, Ints q_ends, Ints k_ends, double scale, double keep,
         int64_t before, int64_t after, int64_t heads, std::string, int64_t, int64_t sparse, Tensor most, Tensor sum, Tensor, Tensor out) {
        refuse_dropout(keep);
        packed_forward(q, k, v, mask, q_ends, k_ends, {heads, sparse, before, after, scale}, most, sum, out);
      })
ACLNN(FlashAttentionUnpaddingScoreGrad,
      [](Tensor q, Tensor k, Tensor v, Tensor dy, Tensor, Tensor, Tensor, Tensor mask, Tensor most, Tensor sum, Tensor, Tensor out, Ints,
         Ints q_ends, Ints k_ends, double scale, double keep, int64_t before, int64_t after, int64_t heads, std::string, int64_t,
         int64_t sparse, Tensor dq, Tensor dk, Tensor dv, Tensor) {
        refuse_dropout(keep);
        packed_backward(q, k, v, dy, mask, most, sum, out, q_ends, k_ends, {heads, sparse, before, after, scale}, dq, dk, dv);
      })

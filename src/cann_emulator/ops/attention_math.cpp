#include "cann_emulator/ops/attention_math.h"

namespace cann::attention {
namespace {

Tensor repeated(const Tensor& x, int64_t heads) { return x.size(0) == heads ? x : x.repeat_interleave(heads / x.size(0), 0); }

Tensor scores(const Sequence& s, const Tensor& hidden, const Shape& shape) {
  auto all = at::matmul(s.q, repeated(s.k, shape.heads).transpose(1, 2)) * shape.scale;
  return hidden.defined() ? all.masked_fill(hidden, -1e30) : all;
}

}  // namespace

void check_types(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.scalar_type() != k.scalar_type() || q.scalar_type() != v.scalar_type())
    throw BadParameter(kParameterInvalid, "query, key and value must have one data type");
  bool known = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kFloat;
  if (!known)
    throw BadParameter(kParameterInvalid,
                       c10::str("query of type ", q.scalar_type(), "; FlashAttentionScore takes FLOAT16, BFLOAT16 and FLOAT"));
}

void check_heads(int64_t heads, int64_t kv_heads, int64_t head_dim) {
  if (heads < 1 || heads > 256)
    throw BadParameter(kParameterInvalid, c10::str("head_num is ", heads, "; 1 to 256 are supported"));
  if (kv_heads < 1 || heads % kv_heads)
    throw BadParameter(kParameterInvalid, c10::str("head_num ", heads, " is not a multiple of the ", kv_heads, " heads of key"));
  if (head_dim < 1 || head_dim > 768)
    throw BadParameter(kParameterInvalid, c10::str("head dimension ", head_dim, "; 1 to 768 are supported"));
}

Tensor attention_mask(int64_t queries, int64_t keys, const Tensor& mask, const Shape& shape) {
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
  if (mask.defined() && mask.scalar_type() != at::kBool && mask.scalar_type() != at::kByte)
    throw BadParameter(kParameterInvalid, c10::str("atten_mask of type ", mask.scalar_type(), "; BOOL and UINT8 are supported"));
  if (sparse_mode < 2 || sparse_mode > 4) return;
  if (!mask.defined() || mask.size(-1) != 2048 || mask.size(-2) != 2048)
    throw BadParameter(kParameterInvalid, "sparse modes 2 to 4 need the compressed 2048 x 2048 atten_mask");
}

Forward forward(const Sequence& s, const Tensor& hidden, const Shape& shape) {
  auto all = scores(s, hidden, shape);
  auto most = all.amax(-1, true);
  auto weights = (all - most).exp();
  auto sum = weights.sum(-1, true);
  return {at::matmul(weights / sum, repeated(s.v, shape.heads)), most, sum};
}

Backward backward(const Sequence& s, const Tensor& hidden, const Tensor& dy, const Forward& kept, const Shape& shape) {
  auto weights = (scores(s, hidden, shape) - kept.row_max).exp() / kept.sum;
  auto dweights = at::matmul(dy, repeated(s.v, shape.heads).transpose(1, 2));
  auto dscores = weights * (dweights - (dy * kept.out).sum(-1, true)) * shape.scale;
  auto shared = [&](const Tensor& x, const Tensor& like) {
    return x.size(0) == like.size(0) ? x : x.reshape({like.size(0), -1, x.size(1), x.size(2)}).sum(1);
  };
  return {at::matmul(dscores, repeated(s.k, shape.heads)), shared(at::matmul(dscores.transpose(1, 2), s.q), s.k),
          shared(at::matmul(weights.transpose(1, 2), dy), s.v)};
}

Tensor dense(const Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout == "SBH") return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  throw BadParameter(kParameterInvalid, "input layout " + layout + " is not supported");
}

Tensor to_float32(const Tensor& x) { return x.to(at::kFloat); }

int64_t key_heads(const Tensor& q, const Tensor& k, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return k.size(1);
  if (layout == "BSND") return k.size(2);
  return heads * k.size(2) / q.size(2);
}

}  // namespace cann::attention

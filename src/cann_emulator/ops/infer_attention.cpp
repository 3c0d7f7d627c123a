// Attention for inference, with dense or paged keys and values, and the operator that writes to the paged cache.
#include "cann_emulator/ops/attention_math.h"

using namespace cann;
using namespace cann::attention;

namespace {

// Keys of one sequence, [heads, length, dim]. A cache of blocks is [blocks, block_size, heads * dim] or [blocks, heads,
// block_size, dim].
Tensor paged(const Tensor& cache, const Tensor& table, int64_t length, int64_t heads) {
  auto by_head = cache.dim() == 4 ? cache : cache.unflatten(2, {heads, -1}).transpose(1, 2);
  int64_t blocks = (length + by_head.size(2) - 1) / by_head.size(2);
  auto own = by_head.index_select(0, table.narrow(0, 0, blocks).to(at::kLong));
  return own.transpose(0, 1).flatten(1, 2).narrow(1, 0, length);
}

void check_infer(const Tensor& q, const Tensor& table, int64_t block_size) {
  if (q.scalar_type() != at::kHalf && q.scalar_type() != at::kBFloat16)
    throw BadParameter(kParameterInvalid,
                       c10::str("query of type ", q.scalar_type(), "; FusedInferAttentionScore takes FLOAT16 and BFLOAT16"));
  if (table.defined() && (block_size % 16 || block_size < 16 || block_size > 512))
    throw BadParameter(kParameterInvalid, c10::str("block_size is ", block_size, "; a multiple of 16 up to 512 is expected"));
  if (table.defined() && q.size(-1) * q.element_size() % 32)
    throw BadParameter(kParameterInvalid, "with a block_table rows of query must be multiples of 32 bytes");
  if (table.defined() && table.scalar_type() != at::kInt) throw BadParameter(kParameterInvalid, "block_table must be INT32");
}

}  // namespace

ACLNN(FusedInferAttentionScoreV3,
      [](Tensor q, Tensors keys, Tensors values, Tensor, Tensor mask, Ints, Ints lengths, Tensor, Tensor, Tensor, Tensor, Tensor,
         Tensor, Tensor, Tensor table, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Ints, Tensor, Tensor,
         Tensor, int64_t heads, double scale, int64_t before, int64_t after, std::string layout, int64_t kv_heads, int64_t sparse,
         int64_t, int64_t block_size, int64_t, bool, int64_t, int64_t, Tensor out, Tensor) {
        check_infer(q, table, block_size);
        Shape shape{heads, sparse, before, after, scale};
        if (kv_heads == 0) kv_heads = heads;
        check_heads(heads, kv_heads, dense(q, layout, heads).size(3));
        auto queries = dense(q, layout, heads), to = dense(out, layout, heads);
        for (int64_t b = 0; b < queries.size(0); ++b) {
          auto of = [&](const Tensors& all) {
            int64_t length = lengths.empty() ? -1 : lengths[static_cast<size_t>(lengths.size() == 1 ? 0 : b)];
            if (table.defined()) return to_float32(paged(all[0], table[b], length, kv_heads));
            auto whole = dense(all[0], layout, kv_heads)[b];
            return to_float32(length < 0 ? whole : whole.narrow(1, 0, length));
          };
          Sequence s{to_float32(queries[b]), of(keys), of(values)};
          to[b].copy_(forward(s, attention_mask(s.q.size(1), s.k.size(1), mask, shape), shape).out);
        }
      })

// Random numbers: the same seed and offset give the same numbers, as on a card, though not the same numbers as a card.
#include <ATen/CPUGeneratorImpl.h>

#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

at::Generator generator(int64_t seed, int64_t offset) {
  auto mixed = static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(offset);
  return at::detail::createCPUGenerator(mixed);
}

// Masks are bit-packed into bytes; their length is a multiple of 128 bits.
Tensor unpack_bits(const Tensor& mask, int64_t count) {
  auto bytes = mask.reshape({-1, 1});
  auto shifts = at::arange(8, bytes.options());
  return at::bitwise_and(at::bitwise_right_shift(bytes, shifts), 1).reshape({-1}).narrow(0, 0, count).to(at::kBool);
}

Tensor pack_bits(const Tensor& bits) {
  auto weights = at::bitwise_left_shift(at::ones({8}, at::kByte), at::arange(8, at::kByte));
  return bits.to(at::kByte).reshape({-1, 8}).mul(weights).sum(1, false, at::kByte);
}

}  // namespace

ACLNN(InplaceUniform,
      [](Tensor x, double from, double to, int64_t seed, int64_t offset) { x.uniform_(from, to, generator(seed, offset)); })
ACLNN(InplaceNormal, [](Tensor x, float mean, float deviation, int64_t seed, int64_t offset) {
  x.normal_(mean, deviation, generator(seed, offset));
})
ACLNN(InplaceRandom,
      [](Tensor x, int64_t from, int64_t to, int64_t seed, int64_t offset) { x.random_(from, to, generator(seed, offset)); })
ACLNN(InplaceBernoulli,
      [](Tensor x, Scalar p, int64_t seed, int64_t offset) { x.bernoulli_(p.toDouble(), generator(seed, offset)); })
ACLNN(InplaceBernoulliTensor, [](Tensor x, Tensor p, int64_t seed, int64_t offset) { x.bernoulli_(p, generator(seed, offset)); })
ACLNN(Randperm, [](int64_t n, int64_t seed, int64_t offset, Tensor out) {
  store(out, at::randperm(n, generator(seed, offset), at::kLong));
})
ACLNN(Multinomial, [](Tensor x, int64_t samples, bool replacement, int64_t seed, int64_t offset, Tensor out) {
  store(out, at::multinomial(x, samples, replacement, generator(seed, offset)));
})
ACLNN(NormalTensorTensor, [](Tensor mean, Tensor deviation, int64_t seed, int64_t offset, Tensor out) {
  store(out, at::normal(mean, deviation, generator(seed, offset)));
})
ACLNN(DropoutGenMaskV2, [](Ints shape, double drop, int64_t seed, int64_t offset, DataType, Tensor mask) {
  auto bits = at::rand({mask.numel() * 8}, generator(seed, offset)) >= drop;
  mask.reshape({-1}).copy_(pack_bits(bits));
})
ACLNN(DropoutDoMask, [](Tensor x, Tensor mask, double drop, Tensor out) {
  auto kept = unpack_bits(mask, x.numel()).reshape(x.sizes());
  store(out, drop >= 1 ? at::zeros_like(x) : at::where(kept, x / (1 - drop), at::zeros({}, x.options())));
})

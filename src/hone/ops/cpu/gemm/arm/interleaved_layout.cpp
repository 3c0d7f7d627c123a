#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"

#include "hone/ops/cpu/gemm/int8_dot_gemm.h"

namespace hone::ops::cpu {
namespace {

int64_t count_fours(const Tensor& rows) { return rows.size(0) / kInterleavedOutputs; }

// Interleaves rows in groups of four; the remaining rows stay unchanged.
Tensor with_rest(const Tensor& reordered, const Tensor& rows) {
  const int64_t begin = count_fours(rows) * kInterleavedOutputs;
  auto sizes = rows.sizes().vec();
  sizes[0] = begin;
  return at::cat({reordered.reshape(sizes), rows.narrow(0, begin, rows.size(0) - begin)});
}

Tensor fours_of(const Tensor& rows, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), count_fours(rows));
  return rows.narrow(0, 0, count_fours(rows) * kInterleavedOutputs).view(shape);
}

}  // namespace

bool interleaves_outputs() {
#if defined(__aarch64__)
  return has_int8_dot();
#else
  return false;
#endif
}

bool can_be_followed(const Tensor& codes) { return !interleaves_outputs() || codes.size(0) % kInterleavedOutputs == 0; }

Tensor interleave_codes(const Tensor& codes) {
  return with_rest(fours_of(codes, {kInterleavedOutputs, codes.size(1)}).transpose(1, 2), codes);
}

Tensor separate_codes(const Tensor& interleaved) {
  return with_rest(fours_of(interleaved, {interleaved.size(1), kInterleavedOutputs}).transpose(1, 2), interleaved);
}

Tensor interleave_scales(const Tensor& scales) {
  return with_rest(fours_of(scales, {kInterleavedOutputs, scales.size(1), 2, scales.size(3)}).permute({0, 2, 4, 3, 1}), scales);
}

Tensor separate_scales(const Tensor& interleaved) {
  auto fours = fours_of(interleaved, {interleaved.size(1), interleaved.size(3), 2, kInterleavedOutputs});
  return with_rest(fours.permute({0, 4, 1, 3, 2}), interleaved);
}

}  // namespace hone::ops::cpu

#include "hone/io/quantized/bit_packing.h"

#include "hone/base/error.h"

namespace hone::io {
namespace {

Tensor shifts(int bits) { return at::arange(0, 32, bits, at::TensorOptions(at::kInt)); }

}  // namespace

Tensor unpack_columns(const Tensor& words, int bits) {
  HONE_CHECK(bits == 2 || bits == 4 || bits == 8, "{} bits", bits);
  auto parts = words.to(at::kInt).unsqueeze(-1).bitwise_right_shift(shifts(bits)).bitwise_and((1 << bits) - 1);
  return parts.view({words.size(0), -1});
}

Tensor pack_columns(const Tensor& values, int bits) {
  int64_t in_word = 32 / bits;
  HONE_CHECK(values.size(1) % in_word == 0, "{} values do not fill words of {}", values.size(1), in_word);
  auto parts = values.to(at::kLong).view({values.size(0), -1, in_word}).bitwise_left_shift(shifts(bits).to(at::kLong)).sum(-1);
  return parts.to(at::kInt);  // the same 32 bits, whatever the sign they spell
}

Tensor unpack_rows(const Tensor& words, int bits) { return unpack_columns(words.t().contiguous(), bits).t().contiguous(); }
Tensor pack_rows(const Tensor& values, int bits) { return pack_columns(values.t().contiguous(), bits).t().contiguous(); }

}  // namespace hone::io

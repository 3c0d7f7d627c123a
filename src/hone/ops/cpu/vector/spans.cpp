#include "hone/ops/cpu/vector/kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/spans.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

using Words = hn::Vec<WordTag>;

// A mixing step: every bit of the result depends on every bit of the word.
HWY_INLINE Words mixed(Words word) {
  const WordTag d;
  word = hn::Mul(hn::Xor(word, hn::ShiftRight<16>(word)), hn::Set(d, 0x7FEB352Du));
  word = hn::Mul(hn::Xor(word, hn::ShiftRight<15>(word)), hn::Set(d, 0x846CA68Bu));
  return hn::Xor(word, hn::ShiftRight<16>(word));
}

// Elements whose numbers have the same upper half.
HWY_INLINE void dropout_part(float* mask, uint64_t begin, int64_t count, uint64_t seed, uint32_t limit, float value) {
  const WordTag d;
  const auto first = hn::Iota(d, static_cast<uint32_t>(begin)), low = hn::Set(d, static_cast<uint32_t>(seed)),
             high = hn::Set(d, static_cast<uint32_t>(seed >> 32) + static_cast<uint32_t>(begin >> 32)), bound = hn::Set(d, limit);
  const auto kept = splat(value);
  fill_row(mask, count, [&](size_t i, auto) HONE_INLINED {
    const auto word = mixed(hn::Xor(hn::Add(first, hn::Set(d, static_cast<uint32_t>(i))), low));
    return hn::IfThenElseZero(hn::RebindMask(FloatTag(), hn::Lt(mixed(hn::Xor(word, high)), bound)), kept);
  });
}

void dropout(float* mask, uint64_t begin, int64_t count, uint64_t seed, uint32_t limit, float value) {
  while (count > 0) {
    const auto part =
        static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(count), (uint64_t{1} << 32) - (begin & 0xFFFFFFFFu)));
    dropout_part(mask, begin, part, seed, limit, value);
    mask += part, begin += static_cast<uint64_t>(part), count -= part;
  }
}

using ByteTag = hn::Rebind<uint8_t, FloatTag>;
HWY_INLINE Floats as_floats(hn::Vec<ByteTag> bytes) { return hn::ConvertTo(FloatTag(), hn::PromoteTo(IntTag(), bytes)); }
HWY_INLINE hn::Vec<ByteTag> load_bytes(const uint8_t* from, FullVector) { return hn::LoadU(ByteTag(), from); }
HWY_INLINE hn::Vec<ByteTag> load_bytes(const uint8_t* from, VectorTail part) {
  uint8_t buffer[HWY_LANES(float)] = {};
  std::memcpy(buffer, from, part.count);
  return load_bytes(buffer, FullVector{});
}

void bytes(const uint8_t* codes, float step, float low, int64_t count, float* values) {
  const auto by = splat(step), start = splat(low);
  fill_row(values, count, HONE_VALUE(hn::MulAdd(as_floats(load_bytes(codes + i, extent)), by, start)));
}
void nibbles(const uint8_t* codes, float step, float low, int64_t half, float* values) {
  const auto by = splat(step), start = splat(low);
  const auto lower = hn::Set(ByteTag(), uint8_t{15});
  fill_row(values, half, HONE_VALUE(hn::MulAdd(as_floats(hn::And(load_bytes(codes + i, extent), lower)), by, start)));
  fill_row(values + half, half,
           HONE_VALUE(hn::MulAdd(
               hn::ConvertTo(FloatTag(), hn::ShiftRight<4>(hn::PromoteTo(IntTag(), load_bytes(codes + i, extent)))), by, start)));
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

HWY_EXPORT(dropout);
HWY_EXPORT(bytes);
HWY_EXPORT(nibbles);
void dropout_span(float* mask, uint64_t begin, int64_t count, uint64_t seed, uint32_t limit, float value) {
  HWY_DYNAMIC_DISPATCH(dropout)(mask, begin, count, seed, limit, value);
}
void widen_bytes(const uint8_t* codes, float step, float low, int64_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(bytes)(codes, step, low, count, values);
}
void widen_nibbles(const uint8_t* codes, float step, float low, int64_t half, float* values) {
  HWY_DYNAMIC_DISPATCH(nibbles)(codes, step, low, half, values);
}

}  // namespace hone::ops::cpu
#endif

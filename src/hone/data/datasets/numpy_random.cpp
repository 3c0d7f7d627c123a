#include "hone/data/datasets/numpy_random.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace hone::data {
namespace {

std::vector<uint32_t> ascending(uint32_t size) {
  std::vector<uint32_t> items(size);
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

// The hash that spreads a seed over a generator's state (NumPy's SeedSequence without a spawn key).
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    std::array<uint32_t, 2> entropy{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    uint32_t constant = 0x43b0d7e5;
    auto hash = [&](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(i < entropy.size() ? entropy[i] : 0);
    for (size_t from = 0; from < pool_.size(); ++from)
      for (size_t to = 0; to < pool_.size(); ++to)
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
  }

  std::array<uint64_t, 4> generate() const {
    std::array<uint64_t, 4> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<uint64_t>(value) << (32 * (i % 2));
    }
    return words;
  }

 private:
  static uint32_t mix(uint32_t x, uint32_t y) {
    uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;
    return result ^ (result >> 16);
  }
  std::array<uint32_t, 4> pool_;
};

constexpr unsigned __int128 wide(uint64_t high, uint64_t low) { return (static_cast<unsigned __int128>(high) << 64) | low; }
constexpr unsigned __int128 kPcgMultiplier = wide(0x2360ED051FC65DA4, 0x4385DF649FCCF645);

}  // namespace

NumpyRandomState::NumpyRandomState(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < state_.size(); ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

NumpyRandomState::NumpyRandomState(std::span<const uint32_t> key) : NumpyRandomState(19650218u) {
  constexpr uint32_t kSize = 624;
  const auto mixed = [&](uint32_t i, uint32_t factor) { return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor); };
  uint32_t i = 1;
  const auto step = [&] {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  };
  for (size_t count = std::max<size_t>(kSize, key.size()), j = 0; count > 0; --count, j = (j + 1) % key.size()) {
    state_[i] = mixed(i, 1664525u) + key[j] + static_cast<uint32_t>(j);
    step();
  }
  for (uint32_t count = kSize - 1; count > 0; --count) {
    state_[i] = mixed(i, 1566083941u) - i;
    step();
  }
  state_[0] = 0x80000000u;
}

void NumpyRandomState::refill() {
  constexpr size_t kSize = 624, kShift = 397;
  for (size_t i = 0; i < kSize; ++i) {
    uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kSize] & 0x7fffffffu);
    state_[i] = state_[(i + kShift) % kSize] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  used_ = 0;
}

uint32_t NumpyRandomState::next32() {
  if (used_ == state_.size()) refill();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint64_t NumpyRandomState::interval(uint64_t largest) {
  if (largest == 0) return 0;
  uint64_t mask = ~uint64_t{0} >> std::countl_zero(largest), value;
  do {
    value = next32();
    if (largest > 0xffffffffu) value = (value << 32) | next32();
    value &= mask;
  } while (value > largest);
  return value;
}

std::vector<uint32_t> NumpyRandomState::permutation(uint32_t size) {
  auto items = ascending(size);
  for (size_t i = size; i-- > 1;) std::swap(items[i], items[interval(i)]);
  return items;
}

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  auto words = SeedSequence(seed).generate();
  increment_ = (wide(words[2], words[3]) << 1) | 1;
  state_ = increment_ + wide(words[0], words[1]);
  state_ = state_ * kPcgMultiplier + increment_;
}

uint64_t NumpyGenerator::next64() {
  state_ = state_ * kPcgMultiplier + increment_;
  auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

void NumpyGenerator::advance(uint64_t draws) {
  // n steps of x -> a x + c are one step with a^n and c (a^n - 1) / (a - 1), built by squaring.
  unsigned __int128 multiplier = 1, addend = 0, step_multiplier = kPcgMultiplier, step_addend = increment_;
  for (; draws > 0; draws >>= 1) {
    if (draws & 1) {
      multiplier *= step_multiplier;
      addend = addend * step_multiplier + step_addend;
    }
    step_addend *= step_multiplier + 1;
    step_multiplier *= step_multiplier;
  }
  state_ = state_ * multiplier + addend;
}

uint32_t NumpyGenerator::next32() {
  if (std::exchange(has_half_, !has_half_)) return half_;
  uint64_t both = next64();
  half_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

// Shuffling draws by mask and rejection, unlike NumPy's bounded integers.
uint32_t NumpyGenerator::interval(uint32_t largest) {
  if (largest == 0) return 0;
  uint32_t mask = ~uint32_t{0} >> std::countl_zero(largest), value;
  do value = next32() & mask;
  while (value > largest);
  return value;
}

std::vector<uint32_t> NumpyGenerator::permutation(uint32_t size) {
  auto items = ascending(size);
  for (size_t i = size; i-- > 1;) std::swap(items[i], items[interval(static_cast<uint32_t>(i))]);
  return items;
}

std::vector<uint32_t> NumpyGenerator::choice(std::span<const double> probabilities, size_t count) {
  std::vector<double> cumulative(probabilities.size());
  std::partial_sum(probabilities.begin(), probabilities.end(), cumulative.begin());
  for (double& value : cumulative) value /= cumulative.back();
  std::vector<uint32_t> picks(count);
  for (auto& pick : picks)
    pick = static_cast<uint32_t>(std::upper_bound(cumulative.begin(), cumulative.end(), random()) - cumulative.begin());
  return picks;
}

}  // namespace hone::data

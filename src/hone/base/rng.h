// Counter-based random numbers: a stream is a key, a draw is a position. State is one integer, so a checkpoint can hold it
// exactly.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace hone {

class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0)
      : key_(mix(seed * 0x9E3779B97F4A7C15ull + mix(stream + 0xD1B54A32D192ED03ull))) {}

  uint64_t next() { return mix(key_ + position_++ * 0x9E3779B97F4A7C15ull); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Unbiased integer in [0, bound).
  uint64_t below(uint64_t bound) {
    uint64_t threshold = -bound % bound, draw;
    do draw = next();
    while (draw < threshold);
    return draw % bound;
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }

 private:
  static uint64_t mix(uint64_t z) {  // splitmix64's finaliser
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t key_, position_ = 0;
};

}  // namespace hone

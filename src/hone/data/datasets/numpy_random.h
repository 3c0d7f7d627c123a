// NumPy's two random generators, bit for bit, so that samples and splits select the same rows as the Python trainers.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hone::data {

// np.random.RandomState(seed): MT19937 with the legacy distributions.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed);
  explicit NumpyRandomState(std::span<const uint32_t> key);  // init_by_array
  uint32_t next32();
  // randint(0, bound)
  uint64_t below(uint64_t bound) { return interval(bound - 1); }
  // randint(0, iinfo(int32).max): how a seed for another generator is drawn.
  int64_t draw_seed() { return static_cast<int64_t>(below(0x7fffffff)); }
  std::vector<uint32_t> permutation(uint32_t size);

 private:
  uint64_t interval(uint64_t largest);
  void refill();
  std::array<uint32_t, 624> state_;
  size_t used_ = 624;
};

// np.random.default_rng(seed): PCG64 seeded through a SeedSequence.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);
  uint64_t next64();
  uint32_t next32();
  double random() { return static_cast<double>(next64() >> 11) * 0x1.0p-53; }
  std::vector<uint32_t> permutation(uint32_t size);
  // choice(len(probabilities), size=count, p=probabilities)
  std::vector<uint32_t> choice(std::span<const double> probabilities, size_t count);
  // Skips `draws` calls of next64 in logarithmic time.
  void advance(uint64_t draws);

 private:
  uint32_t interval(uint32_t largest);
  unsigned __int128 state_, increment_;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

}  // namespace hone::data

#include "hone/data/datasets/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <set>

namespace hone::data {
namespace {

std::vector<uint32_t> words_of_seed(uint64_t seed) {
  std::vector<uint32_t> words{static_cast<uint32_t>(seed)};
  if (seed >> 32) words.push_back(static_cast<uint32_t>(seed >> 32));
  return words;
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : words_(words_of_seed(seed)) {}

double PythonRandom::random() {
  const uint32_t high = words_.next32() >> 5, low = words_.next32() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

uint64_t PythonRandom::below(uint64_t bound) {
  const int bits = std::bit_width(bound);
  for (;;)
    if (const uint64_t drawn = words_.next32() >> (32 - bits); drawn < bound) return drawn;
}

std::vector<size_t> PythonRandom::sample(size_t population, size_t count) {
  std::vector<size_t> chosen;
  // Python shuffles a small population in place and tracks the selected indices of a large one.
  double small = 21;
  if (count > 5) small += std::pow(4.0, std::ceil(std::log(static_cast<double>(count) * 3) / std::log(4.0)));
  if (static_cast<double>(population) <= small) {
    std::vector<size_t> left(population);
    std::iota(left.begin(), left.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      const size_t at = below(population - i);
      chosen.push_back(left[at]);
      left[at] = left[population - i - 1];
    }
    return chosen;
  }
  std::set<size_t> taken;
  while (chosen.size() < count)
    if (const size_t at = below(population); taken.insert(at).second) chosen.push_back(at);
  return chosen;
}

}  // namespace hone::data

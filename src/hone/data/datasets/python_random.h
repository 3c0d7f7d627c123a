// Python's random.Random(seed), bit for bit, so that rows are changed as by the Python trainers.
#pragma once
#include <cstdint>
#include <vector>

#include "hone/data/datasets/numpy_random.h"

namespace hone::data {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  double random();                                              // [0, 1), 53 bits
  uint64_t below(uint64_t bound);                               // randrange(bound), bound < 2^32
  std::vector<size_t> sample(size_t population, size_t count);  // sample(range(population), count)

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i-- > 1;) std::swap(items[i], items[below(i + 1)]);
  }

 private:
  NumpyRandomState words_;  // the same Mersenne Twister, seeded by an array
};

}  // namespace hone::data

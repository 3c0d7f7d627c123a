// Sampling, interleaving and splitting of datasets: index arithmetic on row numbers, with the same random draws as ms-swift,
// LLaMA-Factory and Hugging Face datasets.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/datasets/numpy_random.h"
#include "hone/data/datasets/open_datasets.h"

namespace hone::data {

// Row numbers. A dataset with more than 2^32 rows is rejected when it is opened.
using RowOrder = std::vector<uint32_t>;
// nullopt: all rows in order, without storing their numbers.
using Selection = std::optional<RowOrder>;

// ms-swift's `#N`: whole repeats in order, then N % rows picked at random (in order when not shuffling).
Selection sample_rows(uint32_t rows, int64_t wanted, bool shuffle, NumpyRandomState& random);
// LLaMA-Factory's num_samples: a permutation, then draws with replacement.
RowOrder num_samples(uint32_t rows, int64_t wanted, NumpyRandomState& random);

struct TrainValidation {
  Selection train, validation;
  bool has_train = true, has_validation = false;
};
// ms-swift: validation is max(1, int(min(rows, N) * ratio)) rows, then the rest is sampled to N minus that.
TrainValidation split_and_sample(uint32_t rows, std::optional<int64_t> sample, double ratio, bool shuffle,
                                 NumpyRandomState& random, const std::string& dataset);
// Hugging Face's train_test_split(test_size=…, seed=…).
TrainValidation split_by_size(uint32_t rows, double test_size, int64_t seed);

// Row numbers in the concatenation of datasets of these lengths.
RowOrder interleave_rows(const std::vector<uint32_t>& lengths, const std::vector<double>& probabilities, int64_t seed,
                         StoppingStrategy stopping);

}  // namespace hone::data

#include "hone/data/datasets/mixing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/strings/counted.h"

namespace hone::data {
namespace {

RowOrder counting(uint32_t first, uint32_t count) {
  RowOrder rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

RowOrder pick(const RowOrder& rows, const Selection& selection) {
  if (!selection) return rows;
  RowOrder picked;
  picked.reserve(selection->size());
  for (auto index : *selection) picked.push_back(rows[index]);
  return picked;
}

}  // namespace

Selection sample_rows(uint32_t rows, int64_t wanted, bool shuffle, NumpyRandomState& random) {
  if (rows == 0 || wanted == rows) return std::nullopt;
  RowOrder order;
  order.reserve(static_cast<size_t>(wanted));
  for (int64_t repeat = 0; repeat < wanted / rows; ++repeat)
    for (uint32_t row = 0; row < rows; ++row) order.push_back(row);
  auto remaining = static_cast<uint32_t>(wanted % rows);
  if (remaining == 0) return order;
  auto rest = shuffle ? random.permutation(rows) : counting(0, remaining);
  order.insert(order.end(), rest.begin(), rest.begin() + remaining);
  return order;
}

RowOrder num_samples(uint32_t rows, int64_t wanted, NumpyRandomState& random) {
  auto order = random.permutation(rows);
  if (wanted <= rows) order.resize(static_cast<size_t>(wanted));
  while (rows > 0 && static_cast<int64_t>(order.size()) < wanted) order.push_back(static_cast<uint32_t>(random.below(rows)));
  return order;
}

TrainValidation split_and_sample(uint32_t rows, std::optional<int64_t> sample, double ratio, bool shuffle,
                                 NumpyRandomState& random, const std::string& dataset) {
  int64_t wanted = sample.value_or(rows);
  if (ratio == 0) return {.train = sample_rows(rows, wanted, shuffle, random)};
  if (ratio == 1) {
    if (wanted > rows)
      throw UserError(ExitCode::usage, fmt::format("{}: {} validation rows requested of {}", dataset, wanted, rows),
                      "validation rows are never repeated; lower the count after #");
    return {.validation = sample_rows(rows, wanted, shuffle, random), .has_train = false, .has_validation = true};
  }
  auto held_out = static_cast<uint32_t>(
      std::max<int64_t>(static_cast<int64_t>(static_cast<double>(std::min<int64_t>(rows, wanted)) * ratio), 1));
  if (wanted <= held_out || rows <= held_out)
    throw UserError(ExitCode::usage,
                    fmt::format("{}: nothing is left to train on after {} of {} for validation", dataset, held_out,
                                counted(std::min<int64_t>(rows, wanted), "row")),
                    "lower `split_dataset_ratio` or give `val_dataset`");
  auto seed = static_cast<uint64_t>(random.draw_seed());
  RowOrder train, validation;
  if (shuffle) {
    auto order = NumpyGenerator(seed).permutation(rows);
    validation.assign(order.begin(), order.begin() + held_out);
    train.assign(order.begin() + held_out, order.end());
  } else {
    train = counting(0, rows - held_out);
    validation = counting(rows - held_out, held_out);
  }
  auto sampled = sample_rows(rows - held_out, wanted - held_out, shuffle, random);
  return {.train = pick(train, sampled), .validation = std::move(validation), .has_validation = true};
}

TrainValidation split_by_size(uint32_t rows, double test_size, int64_t seed) {
  auto held_out = static_cast<int64_t>(test_size > 1 ? test_size : std::ceil(test_size * rows));
  if (test_size == 1 || held_out <= 0 || held_out >= rows)
    throw UserError(ExitCode::usage,
                    fmt::format("val_size {} of {} rows leaves no training or no validation rows", test_size, rows),
                    "give a fraction below 1 or a count below the number of rows");
  auto order = NumpyGenerator(static_cast<uint64_t>(seed)).permutation(rows);
  RowOrder validation(order.begin(), order.begin() + held_out);
  order.erase(order.begin(), order.begin() + held_out);
  return {.train = std::move(order), .validation = std::move(validation), .has_validation = true};
}

namespace {

constexpr size_t kDrawsAtOnce = 1000;  // draws come in blocks of this many, as in Hugging Face datasets

// Without probabilities: round-robin over the datasets that are not exhausted.
RowOrder round_robin(const std::vector<uint32_t>& lengths, const std::vector<uint32_t>& offsets, StoppingStrategy stopping) {
  auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  uint32_t rounds = stopping == StoppingStrategy::first_exhausted ? *shortest : *longest;
  RowOrder order;
  for (uint32_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (stopping == StoppingStrategy::all_exhausted_once && round >= lengths[i]) continue;
      order.push_back(offsets[i] + round % lengths[i]);
    }
  return order;
}

void check_probabilities(const std::vector<uint32_t>& lengths, const std::vector<double>& probabilities,
                         StoppingStrategy stopping) {
  if (probabilities.size() != lengths.size())
    throw UserError(ExitCode::usage,
                    fmt::format("{} interleave probabilities for {} datasets", probabilities.size(), lengths.size()),
                    "give one per dataset");
  double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  bool negative = std::any_of(probabilities.begin(), probabilities.end(), [](double p) { return !(p >= 0); });
  if (negative || std::abs(sum - 1) > 1e-8)
    throw UserError(ExitCode::usage, fmt::format("interleave probabilities sum to {}", sum),
                    "expected numbers of at least 0 that sum to 1");
  for (size_t i = 0; i < lengths.size(); ++i)
    if (probabilities[i] == 0 && stopping != StoppingStrategy::first_exhausted)
      throw UserError(ExitCode::usage, fmt::format("dataset {} has probability 0 and would never be exhausted", i + 1),
                      "leave it out, or stop with first_exhausted");
}

}  // namespace

RowOrder interleave_rows(const std::vector<uint32_t>& lengths, const std::vector<double>& probabilities, int64_t seed,
                         StoppingStrategy stopping) {
  for (size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] == 0) throw UserError(ExitCode::bad_data, fmt::format("dataset {} is empty and cannot be interleaved", i + 1));
  std::vector<uint32_t> offsets(lengths.size(), 0);
  std::partial_sum(lengths.begin(), lengths.end() - 1, offsets.begin() + 1);
  if (probabilities.empty()) return round_robin(lengths, offsets, stopping);
  check_probabilities(lengths, probabilities, stopping);

  NumpyGenerator random(static_cast<uint64_t>(seed));
  std::vector<uint64_t> drawn(lengths.size(), 0);
  size_t exhausted = 0, needed = stopping == StoppingStrategy::first_exhausted ? 1 : lengths.size();
  RowOrder order;
  while (true)
    for (uint32_t source : random.choice(probabilities, kDrawsAtOnce)) {
      if (drawn[source] < lengths[source] || stopping != StoppingStrategy::all_exhausted_once)
        order.push_back(offsets[source] + static_cast<uint32_t>(drawn[source] % lengths[source]));
      if (++drawn[source] == lengths[source] && ++exhausted == needed) return order;
    }
}

}  // namespace hone::data

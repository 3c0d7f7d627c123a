#include "hone/train/distributed/metric_reduction.h"

#include <cstring>

namespace hone::train {
namespace {

// Each process writes its names into its own row of a table of zeros; the sum of the tables contains all of them.
std::vector<std::string> names_of_all(const SumsByName& sums, ParallelStrategy& group) {
  std::string own;
  for (const auto& [name, total] : sums) own += name + '\0';
  auto lengths = at::zeros({group.size()}, at::kDouble);
  lengths[group.rank()] = static_cast<double>(own.size());
  group.all_reduce(lengths);
  auto table = at::zeros({group.size(), static_cast<int64_t>(lengths.max().item<double>())}, at::kDouble);
  for (size_t i = 0; i < own.size(); ++i)
    table[group.rank()][static_cast<int64_t>(i)] = static_cast<double>(static_cast<unsigned char>(own[i]));
  group.all_reduce(table);
  std::vector<std::string> names(1);
  const double* bytes = table.const_data_ptr<double>();
  for (int64_t i = 0; i < table.numel(); ++i) {
    if (bytes[i] != 0)
      names.back() += static_cast<char>(static_cast<unsigned char>(bytes[i]));
    else if (!names.back().empty())
      names.emplace_back();
  }
  if (names.back().empty()) names.pop_back();
  return names;
}

}  // namespace

void all_reduce_metrics(SumsByName& sums, ParallelStrategy& group) {
  if (group.size() == 1) return;
  for (const auto& name : names_of_all(sums, group)) sums.try_emplace(name);
  std::vector<double> values;
  for (const auto& [name, total] : sums) values.insert(values.end(), {total.sum, total.count});
  auto packed = at::tensor(values, at::kDouble);
  group.all_reduce(packed);
  const double* value = packed.const_data_ptr<double>();
  for (auto& [name, total] : sums) total = {value[0], value[1]}, value += 2;
}

}  // namespace hone::train

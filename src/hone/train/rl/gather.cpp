#include "hone/train/rl/gather.h"

#include <cstring>

namespace hone::train::rl {

std::vector<double> gather(const std::vector<double>& own, ParallelStrategy& group) {
  if (group.size() == 1) return own;
  auto all = at::zeros({group.size() * static_cast<int64_t>(own.size())}, at::kDouble);
  auto* values = all.mutable_data_ptr<double>();
  std::copy(own.begin(), own.end(), values + static_cast<size_t>(group.rank()) * own.size());
  group.all_reduce(all);
  values = all.mutable_data_ptr<double>();
  return {values, values + all.numel()};
}

// Bytes are sent as numbers that are non-zero on only one process.
std::vector<std::string> gather(const std::vector<std::string>& own, ParallelStrategy& group) {
  if (group.size() == 1) return own;
  std::vector<double> lengths;
  for (const auto& text : own) lengths.push_back(static_cast<double>(text.size()));
  lengths = gather(lengths, group);
  int64_t total = 0;
  std::vector<int64_t> begins;
  for (double length : lengths) begins.push_back(total), total += static_cast<int64_t>(length);
  auto bytes = at::zeros({total}, at::kInt);
  auto* values = bytes.mutable_data_ptr<int32_t>();
  const size_t first = static_cast<size_t>(group.rank()) * own.size();
  for (size_t i = 0; i < own.size(); ++i)
    for (size_t c = 0; c < own[i].size(); ++c)
      values[begins[first + i] + static_cast<int64_t>(c)] = static_cast<unsigned char>(own[i][c]);
  group.all_reduce(bytes);
  values = bytes.mutable_data_ptr<int32_t>();
  std::vector<std::string> all(lengths.size());
  for (size_t i = 0; i < all.size(); ++i)
    for (int64_t c = 0; c < static_cast<int64_t>(lengths[i]); ++c) all[i] += static_cast<char>(values[begins[i] + c]);
  return all;
}

}  // namespace hone::train::rl

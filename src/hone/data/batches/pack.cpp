#include "hone/data/batches/pack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "hone/base/error.h"

namespace hone::data {

Packing parse_packing(const std::string& name) {
  static const std::map<std::string, Packing> names = {{"none", Packing::none},           {"binpack", Packing::best_fit},
                                                       {"sequential", Packing::next_fit}, {"neat", Packing::knapsack},
                                                       {"plain", Packing::joined},        {"blocks", Packing::blocks}};
  auto found = names.find(name);
  if (found == names.end())
    throw UserError(ExitCode::usage, "packing strategy \"" + name + "\" is unknown",
                    "one of binpack, sequential, neat, plain, blocks, none");
  return found->second;
}

Packs pack_best_fit(const std::vector<int64_t>& lengths, int64_t capacity) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  Packs packs;
  std::set<std::pair<int64_t, size_t>> room;  // free tokens, pack
  for (size_t index : order) {
    auto tightest = room.lower_bound({lengths[index], 0});
    size_t target = packs.size();
    int64_t free = capacity;
    if (tightest != room.end()) {
      std::tie(free, target) = *tightest;
      room.erase(tightest);
    } else {
      packs.emplace_back();
    }
    packs[target].push_back(index);
    room.insert({free - lengths[index], target});
  }
  return packs;
}

Packs pack_next_fit(const std::vector<int64_t>& lengths, int64_t capacity) {
  Packs packs;
  int64_t used = capacity;
  for (size_t index = 0; index < lengths.size(); ++index) {
    if (packs.empty() || used + lengths[index] > capacity) packs.emplace_back(), used = 0;
    packs.back().push_back(index);
    used += lengths[index];
  }
  return packs;
}

Packs pack_knapsack(const std::vector<int64_t>& lengths, int64_t capacity) {
  std::map<int64_t, std::vector<size_t>> by_length;  // equal lengths: last in, first out
  for (size_t index = 0; index < lengths.size(); ++index) by_length[lengths[index]].push_back(index);
  Packs packs;
  while (!by_length.empty()) {
    auto& pack = packs.emplace_back();
    for (int64_t room = capacity;;) {
      auto longest = by_length.upper_bound(room);
      if (longest == by_length.begin()) break;
      --longest;
      room -= longest->first;
      pack.push_back(longest->second.back());
      longest->second.pop_back();
      if (longest->second.empty()) by_length.erase(longest);
      if (by_length.empty()) break;
    }
    if (!pack.empty()) continue;
    auto& too_long = by_length.rbegin()->second;  // in a pack of its own, as with the other strategies
    pack.push_back(too_long.back());
    too_long.pop_back();
    if (too_long.empty()) by_length.erase(std::prev(by_length.end()));
  }
  return packs;
}

Packs pack(Packing packing, const std::vector<int64_t>& lengths, int64_t capacity) {
  switch (packing) {
    case Packing::best_fit:
      return pack_best_fit(lengths, capacity);
    case Packing::next_fit:
      return pack_next_fit(lengths, capacity);
    case Packing::knapsack:
    case Packing::joined:
      return pack_knapsack(lengths, capacity);
    default:
      break;
  }
  Packs packs;
  for (size_t index = 0; index < lengths.size(); ++index) packs.push_back({index});
  return packs;
}

}  // namespace hone::data

#include "hone/tinker/gateway/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace hone::tinker {
namespace {

struct MetricFamily {
  std::string head, samples;  // # HELP and # TYPE, then their samples
};

// name 1, or name{label="x"} 1: adds the worker's label before the others.
std::string with_worker(const std::string& line, const std::string& worker) {
  const auto end = line.find_first_of("{ ");
  if (end == line.npos) return line;
  const bool labeled = line[end] == '{';
  return fmt::format("{}{{worker=\"{}\"{}{}\n", line.substr(0, end), worker,
                     labeled ? (line.compare(end, 2, "{}") == 0 ? "" : ",") : "}", line.substr(labeled ? end + 1 : end));
}

}  // namespace

Json page_of_entries(Json entries, const char* time, Page page) {
  auto& list = entries.get_ref<Json::array_t&>();
  if (time) std::ranges::stable_sort(list, std::greater(), [&](const Json& entry) { return entry.value(time, ""); });
  const auto first = std::min<size_t>(list.size(), static_cast<size_t>(page.offset));
  const auto count = std::min<size_t>(list.size() - first, static_cast<size_t>(page.limit));
  Json part = Json::array();
  for (size_t i = 0; i < count; ++i) part.push_back(std::move(list[first + i]));
  return part;
}

void add_numbers(Json& sum, const Json& each) {
  for (const auto& [name, value] : each.items()) {
    if (!sum.contains(name))
      sum[name] = value;
    else if (value.is_number() && sum[name].is_number())
      sum[name] = value.is_number_integer() && sum[name].is_number_integer()
                      ? Json(sum[name].get<int64_t>() + value.get<int64_t>())
                      : Json(sum[name].get<double>() + value.get<double>());
  }
}

std::string merged_metrics(const std::vector<std::pair<std::string, std::string>>& worker_and_text) {
  std::vector<std::string> order;
  std::map<std::string, MetricFamily> families;
  for (const auto& [worker, text] : worker_and_text) {
    std::istringstream lines(text);
    std::string family;
    std::map<std::string, bool> had_head;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      if (line.starts_with("# ")) {
        std::istringstream words(line);
        std::string mark, kind;
        words >> mark >> kind >> family;
        if (!families.contains(family)) order.push_back(family), had_head[family] = true;
        if (auto& entry = families[family]; had_head[family]) entry.head += line + "\n";
      } else {
        families[family].samples += with_worker(line, worker);
      }
    }
  }
  std::string merged;
  for (const auto& name : order) merged += families[name].head + families[name].samples;
  return merged;
}

}  // namespace hone::tinker

#include "hone/eval/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hone/base/strings/utf8.h"

namespace hone::eval {
namespace {

using Cells = std::vector<std::string>;

size_t width_of(const std::string& text) {
  size_t width = 0;
  for (unsigned char byte : text) {
    if (is_continuation_byte(byte)) continue;
    width += byte >= 0xE3 ? 2 : 1;  // Chinese, Japanese, Korean
  }
  return width;
}

void add_table_rows(const TaskResult& result, size_t depth, bool is_group, std::vector<Cells>& rows) {
  auto name = depth == 0 ? result.alias : std::string(depth, ' ') + "- " + result.alias;
  auto metrics = result.metrics;
  std::ranges::sort(metrics, {}, [](const MetricResult& metric) { return metric.metric + "," + metric.filter; });
  if (metrics.empty() && is_group) rows.push_back({name, result.version, "", "", "", "", "", "", ""});
  for (const auto& metric : metrics)
    rows.push_back({name, result.version, metric.filter, std::to_string(result.num_fewshot), metric.metric,
                    metric.higher_is_better ? "↑" : "↓", fmt::format("{:.4f}", metric.value), "±",
                    metric.stderr_value ? fmt::format("{:.4f}", *metric.stderr_value) : "N/A"});
}

const TaskResult* named(const std::vector<TaskResult>& results, const std::string& name) {
  auto found = std::ranges::find(results, name, &TaskResult::name);
  return found == results.end() ? nullptr : &*found;
}

// A group, then its members, each indented by one level.
void add_group_rows(const std::string& name, const std::vector<TaskResult>& tasks, const std::vector<TaskResult>& groups,
                    const std::vector<Group>& tree, size_t depth, std::vector<Cells>& rows) {
  if (const auto* group = named(groups, name)) {
    add_table_rows(*group, depth, true, rows);
    for (const auto& member : std::ranges::find(tree, name, &Group::name)->members)
      add_group_rows(member, tasks, groups, tree, depth + 1, rows);
  } else if (const auto* task = named(tasks, name)) {
    add_table_rows(*task, depth, false, rows);
  }
}

Json metrics_json(const TaskResult& result) {
  Json entry{{"alias", result.alias}, {"name", result.name}, {"sample_len", result.samples}};
  for (const auto& metric : result.metrics) {
    entry[metric.metric + "," + metric.filter] = metric.value;
    entry[metric.metric + "_stderr," + metric.filter] = metric.stderr_value ? Json(*metric.stderr_value) : Json("N/A");
  }
  return entry;
}

}  // namespace

std::string results_table(const std::vector<TaskResult>& tasks, const std::vector<TaskResult>& groups,
                          const std::vector<Group>& tree) {
  std::vector<Cells> rows{{"Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"}};
  std::set<std::string> inner;
  for (const auto& group : tree) inner.insert(group.members.begin(), group.members.end());
  for (const auto& group : groups)
    if (!inner.contains(group.name)) add_group_rows(group.name, tasks, groups, tree, 0, rows);
  for (const auto& task : tasks)
    if (!inner.contains(task.name)) add_table_rows(task, 0, false, rows);
  std::vector<size_t> widths(rows[0].size(), 1);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string table;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      auto gap = std::string(widths[i] - width_of(rows[r][i]), ' ');
      bool right = i == 3 || i == 6 || i == 8;
      table += "|" + (right ? gap + rows[r][i] : rows[r][i] + gap);
    }
    table += "|\n";
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      bool right = i == 3 || i == 6 || i == 8;
      table += "|" + std::string(widths[i] - (right ? 1 : 0), '-') + (right ? ":" : "");
    }
    table += "|\n";
  }
  return table;
}

Json results_json(const std::vector<TaskResult>& tasks, const std::vector<TaskResult>& groups, const std::vector<Group>& tree) {
  Json json{{"results", Json::object()},   {"groups", Json::object()},          {"group_subtasks", Json::object()},
            {"configs", Json::object()},   {"versions", Json::object()},        {"n-shot", Json::object()},
            {"n-samples", Json::object()}, {"higher_is_better", Json::object()}};
  for (const auto& group : tree) json["group_subtasks"][group.name] = group.members;
  for (const auto* list : {&groups, &tasks})
    for (const auto& result : *list) {
      json["results"][result.name] = metrics_json(result);
      if (list == &groups) json["groups"][result.name] = metrics_json(result);
      json["versions"][result.name] = result.version;
      json["n-shot"][result.name] = result.num_fewshot;
      for (const auto& metric : result.metrics) json["higher_is_better"][result.name][metric.metric] = metric.higher_is_better;
      if (list == &groups) continue;
      json["configs"][result.name] = result.config;
      json["n-samples"][result.name] = {{"original", result.documents}, {"effective", result.samples}};
    }
  if (groups.empty()) json.erase("groups");
  return json;
}

}  // namespace hone::eval

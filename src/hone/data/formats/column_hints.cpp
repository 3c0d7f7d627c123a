#include "hone/data/formats/column_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "hone/base/strings/edit_distance.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/terminal.h"
#include "hone/data/formats/columns.h"
#include "hone/data/readers/csv.h"

namespace hone::data {
namespace {

constexpr size_t kListedColumns = 8, kListedBytes = 40, kGuessedColumns = 64;

std::vector<std::string> claimants(const std::vector<std::string>& columns, const ColumnMap& known, const std::string& target) {
  std::vector<std::string> found;
  for (const auto& column : columns)
    if (auto at = known.find(lower_case(column)); at != known.end() && at->second == target) found.push_back(column);
  return found;
}

std::string choice_of(const std::string& column, const std::string& target) {
  return fmt::format("`columns` '{{\"{}\": \"{}\"}}'", column, target);
}

std::string contested(const std::vector<std::string>& columns, const std::string& what, const std::string& target) {
  return fmt::format("{} could each be the {}; choose one with {}", column_list(columns), what,
                     choice_of(columns.back(), target));
}

// Common Chinese column names.
const ColumnMap& translated_columns() {
  static const ColumnMap names = {{"指令", "query"},    {"问题", "query"},    {"提问", "query"},    {"提示", "query"},
                                  {"用户", "query"},    {"输出", "response"}, {"回答", "response"}, {"答案", "response"},
                                  {"回复", "response"}, {"助手", "response"}, {"系统", "system"},   {"系统提示", "system"},
                                  {"历史", "history"},  {"对话", "messages"}};
  return names;
}

// What each column may be meant to contain. "指令" next to "输入" is alpaca's instruction, whose input may be empty.
std::vector<std::pair<std::string, std::string>> meant_columns(const std::vector<std::string>& columns,
                                                               const std::vector<std::string>& names) {
  const bool alpaca = std::ranges::find(columns, "输入") != columns.end();
  std::vector<std::pair<std::string, std::string>> meant;
  std::set<std::string> taken;  // two columns cannot both be the query
  const auto add = [&](const std::string& column, const std::string& target) {
    if (taken.insert(target).second) meant.emplace_back(column, target);
  };
  for (const auto& column : columns | std::views::take(kGuessedColumns)) {
    if (alpaca && (column == "指令" || column == "输入" || column == "输出"))
      add(column, column == "指令" ? "instruction" : column == "输入" ? "input" : "output");
    else if (auto known = translated_columns().find(column); known != translated_columns().end())
      add(column, known->second);
    else if (auto near = nearest_name(column, names); !near.empty() && near != column)
      add(column, near);
  }
  return meant;
}

}  // namespace

std::string column_list(const std::vector<std::string>& columns) {
  std::string list;
  const auto listed = std::min(columns.size(), kListedColumns);
  for (size_t i = 0; i < listed; ++i) {
    const bool last = i + 1 == columns.size();
    list += fmt::format("{}\"{}\"", i == 0 ? "" : last ? " and " : ", ", terminal::truncate(columns[i], kListedBytes));
  }
  if (listed < columns.size()) list += fmt::format(" and {} more", columns.size() - listed);
  return list.empty() ? "none" : list;
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string found;
  if (name.size() > kListedBytes) return found;  // no name, but text
  size_t best = std::max<size_t>(1, name.size() / 4) + 1;
  for (const auto& each : names)
    if (auto distance = edit_distance(lower_case(name), lower_case(each)); distance < best) best = distance, found = each;
  return found;
}

std::string response_hint(const std::vector<std::string>& columns, const ColumnMap& known) {
  if (auto several = claimants(columns, known, "response"); several.size() > 1) return contested(several, "response", "response");
  std::vector<std::string> others;
  for (const auto& column : columns)
    if (!known.contains(lower_case(column))) others.push_back(column);
  if (others.empty())
    return fmt::format("the columns are {}, and none holds a response; expected one called \"response\"", column_list(columns));
  return fmt::format("none of the columns {} is known to hold the response; name it with {}", column_list(columns),
                     choice_of(others.back(), "response"));
}

std::string question_hint(const std::vector<std::string>& columns, const ColumnMap& known) {
  auto several = claimants(columns, known, "query");
  return several.size() > 1 ? contested(several, "question", "query") : "";
}

std::string unknown_columns_hint(const std::vector<std::string>& columns, const ColumnMap& known) {
  if (auto other = separator_hint(columns); !other.empty()) return other;
  std::vector<std::string> names{"messages", "conversations"};
  for (const auto& [name, target] : known)
    if (target == "query" || target == "response") names.push_back(name);
  auto text = fmt::format("columns {}; expected messages, or a query and a response", column_list(columns));
  std::string choices;
  for (const auto& [column, target] : meant_columns(columns, names))
    choices += fmt::format("{}\"{}\": \"{}\"", choices.empty() ? "" : ", ", column, target);
  if (!choices.empty()) return fmt::format("{}: did you mean `columns` '{{{}}}'?", text, choices);
  if (columns.size() == 2)
    return fmt::format("{}: `columns` '{{\"{}\": \"query\", \"{}\": \"response\"}}' says which is which", text, columns[0],
                       columns[1]);
  if (columns.size() < 2) return text;
  return fmt::format("{}: `columns` '{{\"COLUMN\": \"query\", \"COLUMN\": \"response\"}}' says which of them these are", text);
}

}  // namespace hone::data

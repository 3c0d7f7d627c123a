#include "hone/data/datasets/row_changes.h"

#include <cmath>
#include <cstdlib>

#include "hone/base/strings/replace_all.h"

namespace hone::data {

const Json* find_column(const Json& fields, ColumnNames names) {
  for (const auto* name : names)
    if (auto found = fields.find(name); found != fields.end() && !found->is_null()) return &*found;
  return nullptr;
}

std::string column_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }
std::string column_text(const Json& fields, ColumnNames names) {
  const auto* value = find_column(fields, names);
  return value ? column_text(*value) : "";
}

std::string filled(std::string text, const Json& fields, ColumnNames names) {
  for (const auto* name : names) text = replace_all(std::move(text), fmt::format("{{{}}}", name), column_text(fields, {name}));
  return text;
}

Json chat_message(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

RowChange with_query(std::string query) {
  return [query = std::move(query)](Json& fields, const RowOrigin&) { return fields["query"] = query, true; };
}

RowChange with_filled(std::string target, std::string question, ColumnNames names) {
  return [target = std::move(target), question = std::move(question), columns = std::vector<const char*>(names)](
             Json& fields, const RowOrigin&) {
    auto text = question;
    for (const auto* name : columns)
      text = replace_all(std::move(text), fmt::format("{{{}}}", name), column_text(fields, {name}));
    fields[target] = std::move(text);
    return true;
  };
}

RowChange with_classes(std::string query, ColumnNames columns, std::vector<std::string> classes) {
  auto ask = with_filled("query", std::move(query), columns);
  return [ask, classes = std::move(classes)](Json& fields, const RowOrigin& origin) {
    const auto* label = find_column(fields, {"label"});
    if (!label) return false;
    const auto text = column_text(*label);  // a number, in CSV files as text
    char* end = nullptr;
    const auto index = std::lround(std::strtod(text.c_str(), &end));
    if (end == text.c_str()) return false;
    if (index < 0 || static_cast<size_t>(index) >= classes.size()) return false;
    ask(fields, origin);
    fields["response"] = classes[static_cast<size_t>(index)];
    fields.erase("label");
    return true;
  };
}

}  // namespace hone::data

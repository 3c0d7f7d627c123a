// Building blocks of the rows that ms-swift makes of known datasets: texts of columns, and questions filled with them.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "hone/data/conversation.h"

namespace hone::data {

using ColumnNames = std::initializer_list<const char*>;
using RowChange = std::function<bool(Json&, const RowOrigin&)>;

// The first of the columns with a value.
const Json* find_column(const Json& fields, ColumnNames names);
std::string column_text(const Json& value);
std::string column_text(const Json& fields, ColumnNames names);  // "" where there is none

// `text` with {name} replaced by the columns' values.
std::string filled(std::string text, const Json& fields, ColumnNames names);

Json chat_message(const char* role, std::string text);

RowChange with_query(std::string query);
// A question in which `columns` are filled, as the column `target`.
RowChange with_filled(std::string target, std::string question, ColumnNames names);
// A classification as text: the label's word is the response.
RowChange with_classes(std::string query, ColumnNames columns, std::vector<std::string> classes);

}  // namespace hone::data

// What to tell a person whose columns are not understood: which could be meant, and the option that says so.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace hone::data {

using ColumnMap = std::map<std::string, std::string>;  // known column, lower case -> what it holds

// "a, b and 3 more", each quoted.
std::string column_list(const std::vector<std::string>& columns);

// Of a row whose question is known and whose answer is not: the columns that could be the answer, and how one of them is chosen.
std::string answer_hint(const std::vector<std::string>& columns, const ColumnMap& known);
// The same of a question that several columns claim; "" when at most one does.
std::string question_hint(const std::vector<std::string>& columns, const ColumnMap& known);
// Of a row in which nothing is understood.
std::string unknown_columns_hint(const std::vector<std::string>& columns, const ColumnMap& known);

// The near spelling among `names`, "" when none is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

}  // namespace hone::data

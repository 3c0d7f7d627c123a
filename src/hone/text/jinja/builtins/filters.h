// The filters and tests of the language, by name.
#pragma once
#include <string_view>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

using Filter = Value (*)(Interpreter&, const Value& subject, const Arguments&);
using Test = bool (*)(Interpreter&, const Value& subject, const Arguments&);

// Null when there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);

// One table per source file; find_filter searches them in order.
struct FilterEntry {
  std::string_view name;
  Filter filter;
};
Filter find_text_filter(std::string_view name);
Filter find_markup_filter(std::string_view name);
Filter find_number_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);

}  // namespace hone::text::jinja

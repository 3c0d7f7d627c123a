#include "hone/data/formats/explicit_prompt.h"

#include <algorithm>

#include "hone/data/formats/checks.h"

namespace hone::data {
namespace {

bool is_message_list(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& message) { return message.is_object(); });
}

void append_all(Json& messages, const Json& more) { messages.insert(messages.end(), more.begin(), more.end()); }

}  // namespace

void join_explicit_prompt(Json& fields, const SwiftFormatOptions& options) {
  if (has_value(fields, "messages") || !has_value(fields, "query") || !is_message_list(fields["query"])) return;
  Json messages = take_column(fields, "query");
  if (has_value(fields, "rejected") && is_message_list(fields["rejected"])) {
    auto rejected = messages;
    append_all(rejected, fields["rejected"]);
    fields["rejected"] = std::move(rejected);
  }
  const char* column = has_value(fields, "response") ? "response" : "chosen";
  if (has_value(fields, column) && is_message_list(fields[column]))
    append_all(messages, take_column(fields, column));
  else if (has_value(fields, column) && fields[column].is_string())
    messages.push_back({{options.role_keys.front(), "assistant"}, {options.content_keys.front(), take_column(fields, column)}});
  fields["messages"] = std::move(messages);
}

}  // namespace hone::data

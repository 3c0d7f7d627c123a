// Rejects prompts that are too long by counting the tokens of their prefix: tokenizing all of it first could take seconds.
#pragma once
#include <string>
#include <string_view>

#include "hone/serve/chat/served_model.h"

namespace hone::serve {

// ApiError(400, context_length_exceeded) for prompts that certainly exceed the context. Counts part by part and stops when
// certain; short ones are not checked. `guarded`: text that spells a special token stays text. `where` names the field.
void refuse_overlong(std::string_view text, const ServedModel& served, bool guarded, const std::string& where);
void refuse_overlong(const data::Conversation& conversation, const ServedModel& served, const std::string& where);

// ApiError(400) for more than kMostTokenizedBytes: of messages that are only counted, of text that a template may add or omit, so
// that its tokens cannot be counted in advance, and of a response schema.
void reject_long_text(const data::Conversation& conversation);
void reject_long_extras(const data::Conversation& conversation, const Json& tools);
void reject_long_response_format(const Json& shape, const std::string& where);

[[noreturn]] void context_exceeded(const ServedModel& served, const std::string& found, const std::string& where);

}  // namespace hone::serve

// Prompts too long for the model are refused by what their beginning counts: to tokenize all of one first would take seconds.
#pragma once
#include <string>
#include <string_view>

#include "hone/serve/chat/served_model.h"

namespace hone::serve {

// Problem(400, context_length_exceeded) for prompts that surely have more tokens than the context. Counts part by part and stops
// when it knows; short ones are not looked at. `guarded`: what spells a special token is text. `where` names the field.
void refuse_overlong(std::string_view text, const ServedModel& served, bool guarded, const std::string& where);
void refuse_overlong(const data::Conversation& conversation, const ServedModel& served, const std::string& where);

// Problem(400) when there are more than kMostTokenizedBytes: of messages that are only counted, of what a template may write
// beside the messages' words or leave out, so that its tokens cannot be counted before, and of the shape an answer is to have.
void reject_long_text(const data::Conversation& conversation);
void reject_long_extras(const data::Conversation& conversation, const Json& tools);
void reject_long_response_format(const Json& shape, const std::string& where);

[[noreturn]] void context_exceeded(const ServedModel& served, const std::string& found, const std::string& where);

}  // namespace hone::serve

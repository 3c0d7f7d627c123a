// TRL's conversational rows with an explicit prompt: a list of messages, which the completion, or each half of a pair, continues.
#pragma once
#include "hone/data/formats/format.h"

namespace hone::data {

// If "query" is a list of messages, makes "messages" of it and of "response" or "chosen", and puts it before a "rejected" list:
// the columns of rows without a separate prompt.
void join_explicit_prompt(Json& fields, const SwiftFormatOptions& options);

}  // namespace hone::data

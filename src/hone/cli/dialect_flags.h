// Components name settings in backquotes by their config fields; users see the options of their dialect.
#pragma once
#include "hone/base/error.h"
#include "hone/cli/options.h"
#include "hone/cli/table.h"

namespace hone::cli {

// `text` with the options of this front end: "lower `max_length`", or "lower --max_length" in a message of cli itself, becomes
// "lower --cutoff_len" for LLaMA-Factory's users. Other words in backquotes stay.
std::string in_dialect(std::string_view text, FrontEnd front_end, Verbs verb, const TypedNames& typed = {});

// The same for message and hint.
UserError in_dialect(const UserError& error, FrontEnd front_end, Verbs verb, const TypedNames& typed = {});

}  // namespace hone::cli

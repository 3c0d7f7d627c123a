// Components name options in their messages by the table's own names, and fields of their configs in those about a config; a user
// reads the names of the dialect that was typed.
#pragma once
#include "hone/base/error.h"
#include "hone/cli/table.h"

namespace hone::cli {

// `message` with every option as this front end calls it: "lower --max_length" is "lower --cutoff_len" to LLaMA-Factory's users.
std::string in_dialect(std::string_view message, FrontEnd front_end, Verbs verb);

// The same for message and hint; those of a ConfigError also have the options that fill its fields: "`beta` is 0" is
// "--pref_beta is 0" to them.
UserError in_dialect(const UserError& error, FrontEnd front_end, Verbs verb);

}  // namespace hone::cli

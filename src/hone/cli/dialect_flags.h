// Components name options in their messages by the table's own names; a user reads the names of the dialect that was typed.
#pragma once
#include "hone/cli/table.h"

namespace hone::cli {

// `message` with every option as this front end calls it: "lower --max_length" is "lower --cutoff_len" to LLaMA-Factory's users.
std::string in_dialect(std::string_view message, FrontEnd front_end, Verbs verb);

}  // namespace hone::cli

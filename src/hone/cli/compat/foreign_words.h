// Commands and options of other tools and their names in hone. Only names that hone itself does not accept.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "hone/cli/commands.h"

namespace hone::cli::compat {

struct ForeignWord {
  std::string_view word, meant;
};

// "serve" → "deploy", as the front end calls it. Empty if unknown.
std::string command_meant_by(FrontEnd front_end, std::string_view word);
// "load_in_4bit" → "--quant_method bnb --quant_bits 4".
std::string_view option_meant_by(std::string_view name);
// --tuner_type qlora → "--tuner_type lora --quant_method bnb --quant_bits 4".
std::string_view value_meant_by(std::string_view option, std::string_view value);

std::span<const ForeignWord> foreign_options();  // for tests

}  // namespace hone::cli::compat

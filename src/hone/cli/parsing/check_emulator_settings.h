// What a person asks of the emulated cards through HONE_EMULATED_*, looked at before anything runs on them.
#pragma once

namespace hone::cli {

// Throws UserError naming the variable, what it holds and what it may hold.
void check_emulated_machine();

}  // namespace hone::cli

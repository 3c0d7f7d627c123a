// The settings of emulated cards (HONE_EMULATED_*), checked before anything runs on them.
#pragma once

namespace hone::cli {

// Throws UserError naming the variable, what it holds and what it may hold.
void check_emulated_machine();

}  // namespace hone::cli

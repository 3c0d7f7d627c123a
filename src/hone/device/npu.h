// Ascend NPUs through torch_npu, loaded at run time: optional on every machine, linked into nothing. After load(), "npu" is a
// device of libtorch, and the code above this folder needs no special cases.
#pragma once
#include <cstdint>
#include <string>

namespace hone::device::npu {

// Whether this machine has cards and their software, so that "auto" may select them. Loads nothing.
bool present();

// Loads libpython, torch_npu and CANN; idempotent. Throws UserError naming what is missing and the fix.
void load();
bool loaded();
// Releases the devices before main returns, as torch_npu's Python package does; its destructors require it.
void finalize();

std::string soc();  // "Ascend910B3"; empty when nothing is loaded
// The cause of an error on the card: its text, with CANN's error code if torch_npu's text lacks it.
std::string with_card_error(std::string text);

bool computes_bfloat16();  // 910A and 310P do not

struct CardMemory {
  int64_t free = 0, total = 0;  // bytes
};
CardMemory card_memory();  // of the current card, all processes together

}  // namespace hone::device::npu

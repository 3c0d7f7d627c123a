// Ascend NPUs through torch_npu, opened at run time: needed on no machine, linked into nothing. After load() the device "npu" is
// one of libtorch's and the code above this folder knows no difference.
#pragma once
#include <string>

namespace hone::device::npu {

// Whether this machine has cards and the software for them, so that "auto" may choose them. Loads nothing.
bool present();

// Opens libpython, torch_npu and CANN. Does nothing the second time. Throws UserError naming what is missing and how to mend it.
void load();
bool loaded();

std::string soc();  // "Ascend910B3"; empty when nothing is loaded
// What went wrong on the card: the text of an error, with the code that CANN keeps when torch_npu's text does not name it.
std::string with_card_error(std::string text);

bool computes_bfloat16();  // 910A and 310P do not

}  // namespace hone::device::npu

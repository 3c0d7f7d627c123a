// Any bytes as the answer of a model: an answer is found or not, and compared, without a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hone/train/rl/rewards/math_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace rl = hone::train::rl;
  static const auto kGold = rl::find_answer("$\\frac{3}{4}$");
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& answer : {rl::find_answer(text), rl::find_marked_answer(text)})
    if (answer) (void)rl::same_answer(*kGold, *answer);
  return 0;
}

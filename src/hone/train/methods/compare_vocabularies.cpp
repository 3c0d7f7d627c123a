#include "hone/train/methods/compare_vocabularies.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::train {

std::string vocabulary_difference(const text::Tokenizer& here, const text::Tokenizer& there, bool sizes_matter) {
  if (sizes_matter && here.size() != there.size()) return fmt::format("{} tokens here and {} there", here.size(), there.size());
  for (size_t id = 0, common = std::min(here.size(), there.size()); id < common; ++id) {
    const auto token = static_cast<text::TokenId>(id);
    const auto own = here.token_of(token), other = there.token_of(token);
    if (own != other) return fmt::format("token {} is \"{}\" here and \"{}\" there", id, own, other);
  }
  return "";
}

}  // namespace hone::train

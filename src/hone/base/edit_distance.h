// How far apart two spellings are, for "did you mean".
#pragma once
#include <cstddef>
#include <string_view>

namespace hone {

// Insertions, deletions, substitutions and swaps of neighbors each cost one.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace hone

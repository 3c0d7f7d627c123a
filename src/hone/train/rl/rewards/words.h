// Words of a text as Python's split() and lower() see them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hone::train::rl {

std::string_view skip_white_space(std::string_view text);
std::vector<std::string> split_words(std::string_view text);
std::vector<std::string> lower_words(std::string_view text);

}  // namespace hone::train::rl

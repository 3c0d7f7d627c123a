// A text without surrounding white space, like Python's str.strip() on ASCII text.
#pragma once
#include <string>
#include <string_view>

namespace hone {

inline std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\r\f\v\x1c\x1d\x1e\x1f";
  auto begin = text.find_first_not_of(blanks);
  return begin == text.npos ? "" : std::string(text.substr(begin, text.find_last_not_of(blanks) - begin + 1));
}

}  // namespace hone

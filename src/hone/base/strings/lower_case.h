// A text with its ASCII letters in lower case.
#pragma once
#include <string>
#include <string_view>

namespace hone {

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace hone

// Quotes an argument for a shell, so that printed command lines can be copied.
#pragma once
#include <string>

namespace hone::cli {

inline std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%#~";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos && word[0] != '#' && word[0] != '~') return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace hone::cli

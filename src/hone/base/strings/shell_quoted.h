// Quotes an argument for a shell, so that printed command lines can be copied.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace hone {

inline std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%#~";
  auto is_plain = [&](char c) { return (c & 0x80) != 0 || kPlain.find(c) != kPlain.npos; };  // a byte of UTF-8, or one of these
  if (!word.empty() && std::ranges::all_of(word, is_plain) && word[0] != '#' && word[0] != '~') return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace hone

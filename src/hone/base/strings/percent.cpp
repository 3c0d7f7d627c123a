#include "hone/base/strings/percent.h"

#include <fmt/format.h>

#include <charconv>

namespace hone {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    auto digits = text.substr(i + 1, 2);
    auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || status != std::errc() || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string out;
  for (unsigned char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                       c == '_' || c == '~' || kept.find(static_cast<char>(c)) != kept.npos;
    if (plain)
      out += static_cast<char>(c);
    else
      fmt::format_to(std::back_inserter(out), "%{:02X}", c);
  }
  return out;
}

}  // namespace hone

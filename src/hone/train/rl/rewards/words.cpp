#include "hone/train/rl/rewards/words.h"

#include <array>

#include "hone/text/jinja/unicode.h"

namespace hone::train::rl {
namespace {

// Number of bytes of the white-space character at the start of the text, or 0.
size_t white_space_at(std::string_view text) {
  if (text.empty()) return 0;
  auto first = static_cast<unsigned char>(text[0]);
  if ((first >= 9 && first <= 13) || (first >= 28 && first <= 32)) return 1;
  if (first < 0x80) return 0;
  static constexpr std::array<std::string_view, 5> kOthers = {"\u0085", "\u00a0", "\u1680", "\u205f", "\u3000"};
  for (auto space : kOthers)
    if (text.starts_with(space)) return space.size();
  if (!text.starts_with("\xe2\x80") || text.size() < 3) return 0;  // U+2000 to 200A, 2028, 2029, 202F
  auto last = static_cast<unsigned char>(text[2]);
  return last <= 0x8a || last == 0xa8 || last == 0xa9 || last == 0xaf ? 3 : 0;
}

}  // namespace

std::string_view skip_white_space(std::string_view text) {
  for (size_t width = white_space_at(text); width > 0; width = white_space_at(text)) text.remove_prefix(width);
  return text;
}

std::vector<std::string> lower_words(std::string_view text) { return split_words(text::jinja::to_lower(text)); }

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (auto rest = skip_white_space(text); !rest.empty(); rest = skip_white_space(rest)) {
    size_t length = 0;
    while (length < rest.size() && white_space_at(rest.substr(length)) == 0) ++length;
    words.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return words;
}

}  // namespace hone::train::rl

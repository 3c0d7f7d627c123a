#include "hone/text/tokenizer/unicode/utf8.h"

#include <simdjson.h>

namespace hone::text::tokenizer {
namespace {

struct Step {
  size_t length;
  bool valid;
};

// The first character of `bytes`, or the length of the maximal invalid prefix.
Step step_over(std::string_view bytes) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  size_t length = static_cast<size_t>(utf8_length(lead));
  // Only the second byte has a range that depends on the first: it excludes overlong forms, surrogates and values past U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i >= bytes.size() || at(i) < low || at(i) > high) return {i, false};
    low = 0x80, high = 0xBF;
  }
  return {length, true};
}

}  // namespace

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

size_t unfinished_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (is_continuation_byte(byte)) continue;
    auto step = byte < 0x80 ? Step{1, true} : step_over(text.substr(text.size() - back));
    return !step.valid && step.length == back && byte >= 0xC2 && byte <= 0xF4 ? back : 0;
  }
  return 0;
}

void append_lossy(std::string& out, std::string_view bytes) {
  if (is_valid_utf8(bytes)) {
    out.append(bytes);
    return;
  }
  while (!bytes.empty()) {
    auto step = step_over(bytes);
    if (step.valid)
      out.append(bytes.substr(0, step.length));
    else
      out.append("\xEF\xBF\xBD");
    bytes.remove_prefix(step.length);
  }
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  if (is_valid_utf8(text)) return text;
  storage.clear();
  storage.reserve(text.size() + 16);
  append_lossy(storage, text);
  return storage;
}

}  // namespace hone::text::tokenizer

#include <utf8proc.h>

#include <cstring>

#include "hone/text/tokenizer/normalizer.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> units, std::string texts, CharsmapMatching matching)
      : units_(std::move(units)), texts_(std::move(texts)), matching_(matching) {}

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    if (matching_ == CharsmapMatching::longest)
      append_longest(out, text);
    else
      append_graphemes(out, text);
    text = std::move(out);
  }

 private:
  void append_longest(std::string& out, std::string_view text) const {
    while (!text.empty()) {
      size_t length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[0])));
      const char* replacement = nullptr;
      search(text, [&](size_t matched, const char* found) {
        length = matched, replacement = found;
        return true;
      });
      if (replacement)
        out.append(replacement);
      else
        out.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }

  void append_graphemes(std::string& out, std::string_view text) const {
    for (size_t begin = 0; begin < text.size();) {
      size_t end = grapheme_end(text, begin);
      append_grapheme(out, text.substr(begin, end - begin));
      begin = end;
    }
  }

  static size_t grapheme_end(std::string_view text, size_t begin) {
    utf8proc_int32_t state = 0;
    auto current = static_cast<utf8proc_int32_t>(code_point_at(text.data() + begin));
    size_t at = begin + static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[begin])));
    while (at < text.size()) {
      auto next = static_cast<utf8proc_int32_t>(code_point_at(text.data() + at));
      if (current < 0x80 && next < 0x80 && current != '\r') break;
      if (utf8proc_grapheme_break_stateful(current, next, &state)) break;
      current = next;
      at += static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[at])));
    }
    return at;
  }

  // Short clusters are looked up as a whole, then character by character, as in the training of SentencePiece's models.
  void append_grapheme(std::string& out, std::string_view grapheme) const {
    constexpr size_t kWholeLimit = 6;
    if (grapheme.size() < kWholeLimit)
      if (auto* found = lookup(grapheme)) {
        out.append(found);
        return;
      }
    for_each_char(grapheme, [&](uint32_t, size_t at, size_t length) {
      auto part = grapheme.substr(at, length);
      if (auto* found = lookup(part))
        out.append(found);
      else
        out.append(part);
    });
  }

  // The replacement of the shortest key that is a prefix of `key`, or null.
  const char* lookup(std::string_view key) const {
    const char* replacement = nullptr;
    search(key, [&](size_t, const char* found) {
      replacement = found;
      return false;
    });
    return replacement;
  }

  // Calls found(length, replacement) for every key that is a prefix of `text` until it returns false. Indices come from a file:
  // all are checked.
  template <class Found>
  void search(std::string_view text, Found&& found) const {
    if (units_.empty()) return;
    size_t node = offset_of(units_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
      auto byte = static_cast<unsigned char>(text[i]);
      node ^= byte;
      if (byte == 0 || node >= units_.size()) return;
      uint32_t unit = units_[node];
      if ((unit & 0x800000FFu) != byte) return;
      node ^= offset_of(unit);
      if (!(unit >> 8 & 1)) continue;
      size_t at = node < units_.size() ? units_[node] & 0x7FFFFFFFu : texts_.size() + 1;
      bool whole = i + 1 == text.size() || !is_continuation_byte(text[i + 1]);
      if (at > texts_.size() || !whole || !found(i + 1, texts_.c_str() + at)) return;
    }
  }

  static size_t offset_of(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }

  std::vector<uint32_t> units_;
  std::string texts_;
  CharsmapMatching matching_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> make_precompiled(std::string_view charsmap, CharsmapMatching matching) {
  uint32_t trie_bytes = 0;
  if (charsmap.size() < sizeof trie_bytes) return error("precompiled_charsmap of {} bytes is truncated", charsmap.size());
  std::memcpy(&trie_bytes, charsmap.data(), sizeof trie_bytes);
  charsmap.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > charsmap.size() || trie_bytes % sizeof(uint32_t))
    return error("precompiled_charsmap is truncated: its trie wants {} bytes, {} are there", trie_bytes, charsmap.size());
  std::vector<uint32_t> units(trie_bytes / sizeof(uint32_t));
  std::memcpy(units.data(), charsmap.data(), trie_bytes);
  std::string texts(charsmap.substr(trie_bytes));
  if (!is_valid_utf8(texts)) return error("precompiled_charsmap holds invalid UTF-8");
  // An index into the middle of a character would produce invalid text; this is checked here once.
  for (uint32_t unit : units)
    if (unit >> 31) {
      size_t at = unit & 0x7FFFFFFFu;
      if (at < texts.size() && is_continuation_byte(texts[at]))
        return error("precompiled_charsmap points into the middle of a character");
    }
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(std::move(units), std::move(texts), matching));
}

}  // namespace hone::text::tokenizer

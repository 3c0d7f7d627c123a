#include <utf8proc.h>

#include <cstring>

#include "hone/text/tokenizer/normalizer.h"
#include "hone/text/tokenizer/utf8.h"

namespace hone::text::tokenizer {
namespace {

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> units, std::string texts) : units_(std::move(units)), texts_(std::move(texts)) {}

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t begin = 0; begin < text.size();) {
      size_t end = grapheme_end(text, begin);
      append_grapheme(out, std::string_view(text).substr(begin, end - begin));
      begin = end;
    }
    text = std::move(out);
  }

 private:
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

  // Short clusters are looked up whole, then character by character: SentencePiece's models were trained that way.
  void append_grapheme(std::string& out, std::string_view grapheme) const {
    constexpr size_t kWholeLimit = 6;
    if (grapheme.size() < kWholeLimit)
      if (auto* found = lookup(grapheme)) {
        out.append(found);
        return;
      }
    for_each_char(grapheme, [&](uint32_t, size_t at, size_t length) {
      auto part = grapheme.substr(at, length);
      if (auto* found = lookup(part)) out.append(found);
      else out.append(part);
    });
  }

  // The replacement of the shortest key that begins `key`, or null. Every index is checked: the map comes from a file.
  const char* lookup(std::string_view key) const {
    size_t node = 0;
    if (units_.empty()) return nullptr;
    node ^= offset_of(units_[0]);
    for (char c : key) {
      auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return nullptr;
      node ^= byte;
      if (node >= units_.size()) return nullptr;
      uint32_t unit = units_[node];
      if ((unit & 0x800000FFu) != byte) return nullptr;
      node ^= offset_of(unit);
      if (unit >> 8 & 1) {
        if (node >= units_.size()) return nullptr;
        size_t at = units_[node] & 0x7FFFFFFFu;
        return at <= texts_.size() ? texts_.c_str() + at : nullptr;
      }
    }
    return nullptr;
  }

  static size_t offset_of(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }

  std::vector<uint32_t> units_;
  std::string texts_;
};

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  if (c == '/' || c == '_') return 63;
  return -1;
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t buffer = 0;
  int bits = 0;
  for (char c : text) {
    int value = base64_value(c);
    if (value < 0) return error("not base64");
    buffer = buffer << 6 | static_cast<uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out.push_back(static_cast<char>(buffer >> bits & 0xFF));
  }
  return out;
}

Result<std::unique_ptr<Normalizer>> make_precompiled(std::string_view charsmap) {
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
  // An index into the middle of a character would let invalid text out; such indices are rare damage and checked here once.
  for (uint32_t unit : units)
    if (unit >> 31) {
      size_t at = unit & 0x7FFFFFFFu;
      if (at < texts.size() && (static_cast<unsigned char>(texts[at]) & 0xC0) == 0x80)
        return error("precompiled_charsmap points into the middle of a character");
    }
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(std::move(units), std::move(texts)));
}

}  // namespace hone::text::tokenizer

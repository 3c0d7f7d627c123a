#include "hone/text/tokenizer/pre_tokenizers/splitters.h"

#include <array>
#include <cstdint>

#include "hone/text/tokenizer/unicode/unicode.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

constexpr std::array<uint8_t, 128> kAsciiClass = [] {
  std::array<uint8_t, 128> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<size_t>(c)] = kLetter | kLower;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<size_t>(c)] = kLetter | kUpper;
  for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = kNumber;
  for (int c = 9; c <= 13; ++c) table[static_cast<size_t>(c)] = kSpace;
  table[' '] = kSpace;
  table['\n'] = table['\r'] = kSpace | kNewline;
  return table;
}();

// The class of the character at a position and the position after it.
struct Char {
  uint8_t bits;
  const char* next;
  bool is(uint8_t mask) const { return bits & mask; }
};

inline Char char_at(const char* at) {
  auto lead = static_cast<unsigned char>(*at);
  if (lead < 0x80) return {kAsciiClass[lead], at + 1};
  return {char_class(code_point_at(at)), at + utf8_length(lead)};
}

template <class Accept>
inline const char* run(const char* at, const char* end, Accept&& accept) {
  while (at < end) {
    Char c = char_at(at);
    if (!accept(c.bits)) break;
    at = c.next;
  }
  return at;
}

inline const char* run_of(const char* at, const char* end, uint8_t mask) {
  return run(at, end, [mask](uint8_t bits) { return (bits & mask) != 0; });
}

// 's 't 're 've 'm 'll 'd at `at`, or null. If case is ignored, the long s (U+017F) counts as an s.
template <bool ignore_case>
const char* contraction(const char* at, const char* end) {
  if (end - at < 2 || *at != '\'') return nullptr;
  auto letter = [&](int i) {
    return at + i < end ? static_cast<char>(ignore_case && at[i] >= 'A' && at[i] <= 'Z' ? at[i] | 0x20 : at[i]) : '\0';
  };
  char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
  if (ignore_case && end - at >= 3 && at[1] == '\xC5' && at[2] == '\xBF') return at + 3;
  return nullptr;
}

// \s+(?!\S)|\s+ at a white-space character: a run leaves its last character to the following word.
inline const char* trailing_space(const char* at, const char* end) {
  const char *last = at, *here = at;
  while (here < end) {
    Char c = char_at(here);
    if (!c.is(kSpace)) break;
    last = here;
    here = c.next;
  }
  return here == end || last == at ? here : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a white-space character.
inline const char* space_or_lines(const char* at, const char* end) {
  const char *after_newline = nullptr, *last = at, *here = at;
  while (here < end) {
    Char c = char_at(here);
    if (!c.is(kSpace)) break;
    last = here;
    here = c.next;
    if (c.is(kNewline)) after_newline = here;
  }
  if (after_newline) return after_newline;
  return here == end || last == at ? here : last;
}

const char* split_gpt2(const char* at, const char* end) {
  if (auto* short_form = contraction<false>(at, end)) return short_form;
  const char* start = *at == ' ' && at + 1 < end ? at + 1 : at;
  Char c = char_at(start);
  if (c.is(kLetter)) return run_of(c.next, end, kLetter);
  if (c.is(kNumber)) return run_of(c.next, end, kNumber);
  if (!c.is(kSpace)) return run(c.next, end, [](uint8_t bits) { return !(bits & (kSpace | kLetter | kNumber)); });
  return trailing_space(at, end);
}

// Position after at most `most` digits, of which c is the first.
const char* digits_from(const Char& c, const char* end, int most) {
  const char* here = c.next;
  for (int digits = 1; digits < most && here < end; ++digits) {
    Char next = char_at(here);
    if (!next.is(kNumber)) break;
    here = next.next;
  }
  return here;
}

// The common part of the patterns of Llama 3 and Qwen; they differ in the digits per token and in whether marks belong to words.
template <int max_digits, uint8_t word_mask>
const char* split_words(const char* at, const char* end) {
  Char c = char_at(at);
  if (c.is(word_mask) && !c.is(kMark)) return run_of(c.next, end, word_mask);
  if (*at == '\'')
    if (auto* short_form = contraction<true>(at, end)) return short_form;
  if (c.is(kNumber)) return digits_from(c, end, max_digits);
  if (!c.is(kNewline) && c.next < end) {  // one character of any other kind may precede a word
    Char next = char_at(c.next);
    if (next.is(word_mask)) return run_of(next.next, end, word_mask);
  }
  if (c.is(word_mask)) return c.next;  // a lone mark
  const char* start = *at == ' ' && c.next < end ? c.next : at;
  Char first = char_at(start);
  auto symbol = [](uint8_t bits) { return !(bits & (kSpace | kNumber | word_mask)); };
  if (symbol(first.bits)) return run_of(run(first.next, end, symbol), end, kNewline);
  return space_or_lines(at, end);
}

constexpr uint8_t kWordOrMark = kLetter | kMark;

// [upper other]*[lower other]+ from `at`: null when nothing matches. "Other" letters and marks belong to both sets.
const char* capitals_then_small(const char* at, const char* end) {
  const char *here = at, *after_shared = nullptr;
  while (here < end) {
    Char c = char_at(here);
    if (!c.is(kWordOrMark)) break;
    if (c.is(kLower)) return run(here, end, [](uint8_t bits) { return (bits & kWordOrMark) && !(bits & kUpper); });
    here = c.next;
    if (!c.is(kUpper)) after_shared = here;
  }
  return after_shared;
}

// [upper other]+[lower other]* from `at`: null when nothing matches.
const char* capitals(const char* at, const char* end) {
  const char* here = run(at, end, [](uint8_t bits) { return (bits & kWordOrMark) && !(bits & kLower); });
  if (here == at) return nullptr;
  return run(here, end, [](uint8_t bits) { return (bits & kWordOrMark) && !(bits & kUpper); });
}

// GPT-4o's family (Llama 4, Mistral's Tekken): words break between a lower-case and an upper-case letter.
template <int max_digits, bool contractions>
const char* split_cased(const char* at, const char* end) {
  Char c = char_at(at);
  bool may_lead = !c.is(kNewline | kLetter | kNumber) && c.next < end;
  const char* word = nullptr;
  for (auto* match : {capitals_then_small, capitals}) {
    if (may_lead) word = match(c.next, end);
    if (!word && c.is(kWordOrMark)) word = match(at, end);
    if (word) break;
  }
  if (word) {
    auto* suffix = contractions && word < end ? contraction<true>(word, end) : nullptr;
    return suffix ? suffix : word;
  }
  if (c.is(kNumber)) return digits_from(c, end, max_digits);
  const char* start = *at == ' ' && c.next < end ? c.next : at;
  Char first = char_at(start);
  auto symbol = [](uint8_t bits) { return !(bits & (kSpace | kNumber | kLetter)); };
  if (symbol(first.bits)) {
    const char* here = run(first.next, end, symbol);
    while (here < end && (*here == '\r' || *here == '\n' || *here == '/')) ++here;
    return here;
  }
  return space_or_lines(at, end);
}

struct Known {
  std::string_view pattern;
  Splitter splitter;
};

constexpr Known kKnown[] = {
    {kGpt2Pattern, split_gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_words<3, kLetter>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_words<1, kLetter>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_words<1, kWordOrMark>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_cased<3, true>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     split_cased<1, false>},
};

}  // namespace

Splitter known_splitter(std::string_view pattern) {
  for (auto& known : kKnown)
    if (known.pattern == pattern) return known.splitter;
  return nullptr;
}

}  // namespace hone::text::tokenizer

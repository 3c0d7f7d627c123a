// Character properties for tokenizers, and the four normalization forms.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace hone::text::tokenizer {

// Bits of char_class().
enum CharClass : uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kSpace = 4,        // \s: White_Space
  kNewline = 8,      // \r \n
  kUpper = 16,       // \p{Lu} \p{Lt}
  kLower = 32,       // \p{Ll}
  kMark = 64,        // \p{M}
  kNfcUnsafe = 128,  // text holding it may change under NFC
};

namespace internal {
extern std::array<std::atomic<const uint8_t*>, 0x1100> class_pages;
const uint8_t* fill_class_page(uint32_t page);
}  // namespace internal

// Pages of 256 characters are computed on first use: no start-up cost, later calls take two loads.
inline uint8_t char_class(uint32_t code_point) {
  const uint8_t* page = internal::class_pages[code_point >> 8].load(std::memory_order_acquire);
  if (!page) [[unlikely]]
    page = internal::fill_class_page(code_point >> 8);
  return page[code_point & 255];
}

bool is_white_space(uint32_t code_point);
bool is_numeric(uint32_t code_point);
bool is_word(uint32_t code_point);             // \w of added tokens and the Whitespace pre-tokenizer
bool is_punctuation(uint32_t code_point);      // ASCII punctuation and \p{P} of Unicode 8
bool is_combining_mark(uint32_t code_point);   // what StripAccents removes
bool is_nonspacing_mark(uint32_t code_point);  // what BertNormalizer removes as accents
bool is_control(uint32_t code_point);          // what BertNormalizer removes as control characters
void append_lowercase(std::string& out, uint32_t code_point);

// A number per script; 0 is none. Kana and the prolonged sound mark count as Han, a space as none.
int script_of(uint32_t code_point);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalize(std::string_view text, NormalForm form);
bool is_surely_nfc(std::string_view text);  // false: may or may not be

}  // namespace hone::text::tokenizer

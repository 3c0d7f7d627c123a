#include "hone/text/tokenizer/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "hone/text/tokenizer/unicode/unicode_exceptions.h"
#include "hone/text/tokenizer/unicode/unicode_scripts.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

template <class Range, size_t n>
const Range* find_range(const Range (&ranges)[n], uint32_t code_point) {
  auto after = std::upper_bound(std::begin(ranges), std::end(ranges), code_point,
                                [](uint32_t value, const Range& range) { return value < range.first; });
  if (after == std::begin(ranges) || std::prev(after)->last < code_point) return nullptr;
  return std::prev(after);
}

utf8proc_category_t category(uint32_t code_point) {
  if (auto* range = find_range(kNewCategories, code_point)) return range->category;
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool in(utf8proc_category_t value, utf8proc_category_t first, utf8proc_category_t last) {
  return value >= first && value <= last;
}
bool is_mark(utf8proc_category_t value) { return in(value, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

// Second characters of canonical compositions with combining class 0: the only starters that change the preceding character.
constexpr CodeRange kComposingStarters[] = {
    {0x9BE, 0x9BE},     {0x9D7, 0x9D7},     {0xB3E, 0xB3E},     {0xB56, 0xB57},     {0xBBE, 0xBBE},     {0xBD7, 0xBD7},
    {0xCC2, 0xCC2},     {0xCD5, 0xCD6},     {0xD3E, 0xD3E},     {0xD57, 0xD57},     {0xDCF, 0xDCF},     {0xDDF, 0xDDF},
    {0x102E, 0x102E},   {0x1161, 0x1175},   {0x11A8, 0x11C2},   {0x1B35, 0x1B35},   {0x11127, 0x11127}, {0x1133E, 0x1133E},
    {0x11357, 0x11357}, {0x114B0, 0x114B0}, {0x114BA, 0x114BA}, {0x114BD, 0x114BD}, {0x115AF, 0x115AF}, {0x11930, 0x11930},
};

bool is_nfc_unsafe(uint32_t code_point) {
  if (code_point < 0x300) return false;
  auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  bool canonical = property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0;
  return property->combining_class != 0 || canonical || find_range(kComposingStarters, code_point);
}

uint8_t compute_class(uint32_t code_point) {
  auto value = category(code_point);
  uint8_t bits = 0;
  if (in(value, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO)) bits |= kLetter;
  if (value == UTF8PROC_CATEGORY_LU || value == UTF8PROC_CATEGORY_LT) bits |= kUpper;
  if (value == UTF8PROC_CATEGORY_LL) bits |= kLower;
  if (in(value, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)) bits |= kNumber;
  if (is_mark(value)) bits |= kMark;
  if (is_white_space(code_point)) bits |= kSpace;
  if (code_point == '\r' || code_point == '\n') bits |= kNewline;
  if (is_nfc_unsafe(code_point)) bits |= kNfcUnsafe;
  return bits;
}

}  // namespace

namespace internal {

std::array<std::atomic<const uint8_t*>, 0x1100> class_pages{};

const uint8_t* fill_class_page(uint32_t page) {
  auto* fresh = new uint8_t[256];
  for (uint32_t i = 0; i < 256; ++i) fresh[i] = compute_class(page << 8 | i);
  const uint8_t* expected = nullptr;
  if (class_pages[page].compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return fresh;
  delete[] fresh;  // another thread was first
  return expected;
}

}  // namespace internal

bool is_white_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(uint32_t c) {
  return (char_class(c) & kNumber) || (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);  // Unicode 17
}

bool is_word(uint32_t c) {
  auto value = category(c);
  if (in(value, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_ME) || value == UTF8PROC_CATEGORY_ND || value == UTF8PROC_CATEGORY_NL ||
      value == UTF8PROC_CATEGORY_PC)
    return true;
  // Other_Alphabetic symbols (circled and squared letters) and the two joiners.
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

bool is_punctuation(uint32_t c) {
  if (c < 0x80) return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  if (c == 0x166D || c == 0x111C9) return true;  // reclassified after Unicode 8
  auto value = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return in(value, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) && !find_range(kNotYetPunctuation, c);
}

bool is_combining_mark(uint32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  return is_mark(utf8proc_category(static_cast<utf8proc_int32_t>(c))) && !find_range(kNotYetCombining, c);
}

bool is_nonspacing_mark(uint32_t c) {
  if (c == 0x1734) return true;
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN && !find_range(kNotYetNonspacing, c);
}

bool is_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  // Cc, Cf and Co as of Unicode 8.
  if (c == 0x890 || c == 0x891 || c == 0x8E2 || c == 0x110CD || (c >= 0x13430 && c <= 0x1343F)) return false;
  auto value = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return value == UTF8PROC_CATEGORY_CC || value == UTF8PROC_CATEGORY_CF || value == UTF8PROC_CATEGORY_CO;
}

void append_lowercase(std::string& out, uint32_t c) {
  if (c == 0x130) {  // İ is the only character with a two-character lower case
    out.append("i\xCC\x87");
    return;
  }
  if (auto* range = find_range(kNewLowerCase, c)) {
    append_utf8(out, static_cast<uint32_t>(static_cast<int32_t>(c) + range->shift));
    return;
  }
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

int script_of(uint32_t c) {
  if (c == 0x30FC) return kHan;
  if (c == ' ') return 0;
  auto* range = find_range(kScripts, c);
  int script = range ? range->script : 0;
  return script == kHiragana || script == kKatakana ? kHan : script;
}

bool is_surely_nfc(std::string_view text) {
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    auto lead = static_cast<unsigned char>(*at);
    // NFC leaves every character below U+0300 (lead byte below 0xCC) unchanged.
    if (lead >= 0xCC && (char_class(code_point_at(at)) & kNfcUnsafe)) return false;
    at += utf8_length(lead);
  }
  return true;
}

namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t c) {
  if (find_range(kNotYetCombining, static_cast<uint32_t>(c))) return 0;
  return utf8proc_get_property(c)->combining_class;
}

CodePoints decompose(std::string_view text, bool compatible) {
  CodePoints out;
  out.reserve(text.size());
  for_each_char(text, [&](uint32_t c, size_t, size_t) {
    bool unchanged = c < 0xA0 || c == 0x11938;
    if (compatible) unchanged = unchanged || find_range(kNotYetCompatible, c);
    if (unchanged) {
      out.push_back(static_cast<utf8proc_int32_t>(c));
      return;
    }
    utf8proc_int32_t parts[32];
    int boundary = 0;
    auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
    auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
    if (count <= 0 || count > 32)
      out.push_back(static_cast<utf8proc_int32_t>(c));
    else
      out.insert(out.end(), parts, parts + count);
  });
  return out;
}

void order_marks(CodePoints& text) {
  for (size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(i), text.begin() + static_cast<ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

// Composes in place. Marks newer than the reference's tables count as starters, so the text between them is composed
// separately.
void compose(CodePoints& text) {
  size_t written = 0;
  auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && !find_range(kNotYetCombining, static_cast<uint32_t>(text[end]))) ++end;
    auto count = utf8proc_normalize_utf32(text.data() + begin, static_cast<utf8proc_ssize_t>(end - begin), options);
    size_t kept = count < 0 ? end - begin : static_cast<size_t>(count);
    std::copy_n(text.begin() + static_cast<ptrdiff_t>(begin), kept, text.begin() + static_cast<ptrdiff_t>(written));
    written += kept;
    begin = end;
  }
  text.resize(written);
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_ascii(text) || (form == NormalForm::nfc && is_surely_nfc(text))) return std::string(text);
  bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  auto code_points = decompose(text, compatible);
  order_marks(code_points);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(code_points);
  std::string out;
  out.reserve(text.size());
  for (auto c : code_points) append_utf8(out, static_cast<uint32_t>(c));
  return out;
}

}  // namespace hone::text::tokenizer

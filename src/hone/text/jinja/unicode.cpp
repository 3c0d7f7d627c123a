#include "hone/text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "hone/base/strings/utf8.h"

namespace hone::text::jinja {

namespace {

size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 1;
}

size_t valid_length(std::string_view text, size_t offset) {
  size_t length = sequence_length(static_cast<unsigned char>(text[offset]));
  if (offset + length > text.size()) return 1;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation_byte(text[offset + i])) return 1;
  return length;
}

int category(char32_t point) { return point > 0x10FFFF ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<int32_t>(point)); }

// Characters whose upper case has several characters; utf8proc maps one to one.
struct Expansion {
  char32_t from;
  const char32_t* upper;
  const char32_t* title;
};
constexpr Expansion kExpansions[] = {
    {U'ß', U"SS", U"Ss"},   {U'ŉ', U"ʼN", U"ʼN"},   {U'ﬀ', U"FF", U"Ff"}, {U'ﬁ', U"FI", U"Fi"}, {U'ﬂ', U"FL", U"Fl"},
    {U'ﬃ', U"FFI", U"Ffi"}, {U'ﬄ', U"FFL", U"Ffl"}, {U'ﬅ', U"ST", U"St"}, {U'ﬆ', U"ST", U"St"}, {U'և', U"ԵՒ", U"Եւ"},
};

void append_upper(std::string& out, char32_t point, bool title) {
  for (const Expansion& expansion : kExpansions) {
    if (expansion.from != point) continue;
    for (char32_t c : std::u32string_view(title ? expansion.title : expansion.upper)) append_utf8(out, c);
    return;
  }
  int32_t mapped = title ? utf8proc_totitle(static_cast<int32_t>(point)) : utf8proc_toupper(static_cast<int32_t>(point));
  append_utf8(out, static_cast<char32_t>(mapped));
}

bool is_cased(char32_t point) {
  int c = category(point);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

// Greek capital sigma at the end of a word becomes the final form.
char32_t lower_of(const std::u32string& points, size_t i) {
  if (points[i] == U'Σ') {
    bool letter_before = i > 0 && is_cased(points[i - 1]);
    bool letter_after = i + 1 < points.size() && is_cased(points[i + 1]);
    return letter_before && !letter_after ? U'ς' : U'σ';
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(points[i])));
}

void append_lower(std::string& out, const std::u32string& points, size_t i) {
  append_utf8(out, lower_of(points, i));
  if (points[i] == U'İ') append_utf8(out, 0x307);
}

bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) i += static_cast<unsigned char>(text[i]) < 0x80 ? 1 : valid_length(text, i);
  return count;
}

char32_t next_code_point(std::string_view text, size_t& offset) {
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[offset + i])); };
  size_t length = valid_length(text, offset);
  char32_t point = byte(0);
  if (length == 2) point = (point & 0x1F) << 6 | (byte(1) & 0x3F);
  if (length == 3) point = (point & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (length == 4) point = (point & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  offset += length;
  return point;
}

std::u32string decode(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (size_t i = 0; i < text.size();) points += next_code_point(text, i);
  return points;
}

std::string encode(std::u32string_view points) {
  std::string out;
  out.reserve(points.size());
  for (char32_t point : points) append_utf8(out, point);
  return out;
}

size_t byte_offset(std::string_view text, int64_t index) {
  size_t offset = 0;
  while (index-- > 0 && offset < text.size()) offset += valid_length(text, offset);
  return offset;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t point) {
  int c = category(point);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t point) { return category(point) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t point) {
  if (is_decimal(point)) return true;
  return point == 0xB2 || point == 0xB3 || point == 0xB9 || point == 0x2070 || (point >= 0x2074 && point <= 0x2079) ||
         (point >= 0x2080 && point <= 0x2089) || (point >= 0x2460 && point <= 0x2468) || (point >= 0x2474 && point <= 0x247C) ||
         (point >= 0x2488 && point <= 0x2490) || (point >= 0x2776 && point <= 0x277E);
}

bool is_numeric(char32_t point) {
  int c = category(point);
  bool ideograph = false;
  for (char32_t number : std::u32string_view(U"〇一二三四五六七八九十百千万亿")) ideograph |= number == point;
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO || ideograph;
}

bool is_word(char32_t point) { return point == '_' || is_alpha(point) || is_numeric(point); }
bool is_upper(char32_t point) { return category(point) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t point) { return category(point) == UTF8PROC_CATEGORY_LL; }

bool is_printable(char32_t point) {
  if (point < 0x7F) return point >= 0x20;
  switch (category(point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      out += ascii_upper(text[i++]);
    } else {
      append_upper(out, next_code_point(text, i), false);
    }
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (all_ascii(text)) {
    for (char c : text) out += ascii_lower(c);
    return out;
  }
  std::u32string points = decode(text);
  for (size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string capitalize(std::string_view text) {
  std::u32string points = decode(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_upper(out, points[i], true);
    } else {
      append_lower(out, points, i);
    }
  }
  return out;
}

std::string title_case(std::string_view text) {
  std::u32string points = decode(text);
  std::string out;
  bool inside_word = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (inside_word) {
      append_lower(out, points, i);
    } else {
      append_upper(out, points[i], true);
    }
    inside_word = is_cased(points[i]);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::u32string points = decode(text);
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(out, points, i);
    } else if (is_lower(points[i])) {
      append_upper(out, points[i], false);
    } else {
      append_utf8(out, points[i]);
    }
  }
  return out;
}

namespace {

template <class Predicate>
std::string_view strip_if(std::string_view text, Side side, Predicate drop) {
  size_t begin = 0, end = text.size();
  if (static_cast<int>(side) & static_cast<int>(Side::left)) {
    while (begin < end) {
      size_t next = begin;
      if (!drop(next_code_point(text, next))) break;
      begin = next;
    }
  }
  if (static_cast<int>(side) & static_cast<int>(Side::right)) {
    while (end > begin) {
      size_t start = end - 1;
      while (start > begin && end - start < 4 && is_continuation_byte(text[start])) --start;
      size_t next = start;
      char32_t point = next_code_point(text.substr(0, end), next);
      if (next != end) {
        start = end - 1;
        point = static_cast<unsigned char>(text[start]);
      }
      if (!drop(point)) break;
      end = start;
    }
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string_view strip_space(std::string_view text, Side side) { return strip_if(text, side, is_space); }

std::string_view strip_characters(std::string_view text, std::string_view characters, Side side) {
  std::u32string set = decode(characters);
  return strip_if(text, side, [&](char32_t point) { return set.find(point) != std::u32string::npos; });
}

}  // namespace hone::text::jinja

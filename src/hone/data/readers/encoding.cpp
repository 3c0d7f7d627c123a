#include "hone/data/readers/encoding.h"

#include <simdjson.h>

namespace hone::data {
namespace {

// Without a BOM, a zero byte next to the first character of a JSON text identifies the encoding.
bool looks_like_utf16(std::string_view bytes) {
  constexpr std::string_view kLittle("{\0\"\0", 4), kBig("\0{\0\"", 4);
  return has_utf16_mark(bytes) || bytes.starts_with(kLittle) || bytes.starts_with(kBig);
}

}  // namespace

bool has_utf16_mark(std::string_view bytes) { return bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"); }

std::string encoding_problem(std::string_view bytes) {
  if (looks_like_utf16(bytes)) return "UTF-16; expected UTF-8: `iconv -f UTF-16 -t UTF-8` converts it";
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return "";
  return "bytes that are not UTF-8; expected UTF-8: `iconv -f GB18030 -t UTF-8` converts what Excel and editors write in Chinese";
}

}  // namespace hone::data

// Checks that user files are UTF-8.
#pragma once
#include <string>
#include <string_view>

namespace hone::data {

// "UTF-16; expected UTF-8: `iconv …` converts it" for another encoding; empty for UTF-8.
std::string encoding_problem(std::string_view bytes);

// UTF-16 (which Windows calls "Unicode"), by its byte order mark.
bool has_utf16_mark(std::string_view bytes);

}  // namespace hone::data

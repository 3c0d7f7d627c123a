#include "hone/cli/parsing/alias_value.h"

#include <algorithm>
#include <string>

namespace hone::cli {
namespace {

Json translate_word(const Alias& alias, const Json& word) {
  if (!alias.unit.empty() && word.is_number()) return Json(word.dump() + std::string(alias.unit));
  if (!word.is_string() && !word.is_boolean()) return word;
  const auto text = word.is_string() ? word.get<std::string>() : word.dump();
  if (!alias.unit.empty() && text.find_first_not_of("0123456789.") == std::string::npos)
    return Json(text + std::string(alias.unit));
  for (std::string_view rest = alias.values; !rest.empty();) {
    auto pair = rest.substr(0, rest.find('|'));
    auto equals = pair.find('=');
    if (pair.substr(0, equals) == text) return Json(pair.substr(equals + 1));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
  }
  return word;
}

}  // namespace

Json translate_value(const Alias& alias, const Json& given, bool commas) {
  if (!given.is_array() && !commas) return translate_word(alias, given);
  static constexpr Option kWords("words", List, "", "");
  auto words = read_value(kWords, given, commas);
  if (!words) return given;
  Json list = Json::array();
  for (const auto& item : *words) list.push_back(translate_word(alias, item));
  return list;
}

}  // namespace hone::cli

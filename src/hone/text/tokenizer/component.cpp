#include "hone/text/tokenizer/component.h"

#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {

std::string Fields::text(const char* key) {
  if (!has(key)) fail(fmt::format("'{}' is missing", key));
  return text(key, "");
}

std::string Fields::text(const char* key, std::string fallback) {
  if (!has(key)) return fallback;
  if (object_[key].is_string()) return object_[key].get<std::string>();
  fail(fmt::format("'{}' is {}; expected a string", key, object_[key].type_name()));
  return fallback;
}

bool Fields::flag(const char* key, bool fallback) {
  if (!has(key)) return fallback;
  if (object_[key].is_boolean()) return object_[key].get<bool>();
  fail(fmt::format("'{}' is {}; expected true or false", key, object_[key].type_name()));
  return fallback;
}

int64_t Fields::number(const char* key, int64_t fallback, int64_t lowest, int64_t highest) {
  if (!has(key)) return fallback;
  if (object_[key].is_number_integer() && !(object_[key].is_number_unsigned() && object_[key].get<uint64_t>() > INT64_MAX)) {
    auto value = object_[key].get<int64_t>();
    if (value >= lowest && value <= highest) return value;
  }
  fail(fmt::format("'{}' is {}; expected an integer from {} to {}", key, object_[key].dump().substr(0, 40), lowest, highest));
  return fallback;
}

uint32_t Fields::character(const char* key, uint32_t fallback) {
  if (!has(key)) return fallback;
  auto value = text(key, "");
  if (!value.empty() && value.size() == static_cast<size_t>(utf8_length(static_cast<unsigned char>(value[0]))))
    return code_point_at(value.data());
  fail(fmt::format("'{}' is not a single character", key));
  return fallback;
}

const Json& Fields::list(const char* key) {
  static const Json empty = Json::array();
  if (has(key) && object_[key].is_array()) return object_[key];
  fail(fmt::format("'{}' is missing or not a list", key));
  return empty;
}

Fields::Pattern Fields::pattern(const char* key) {
  if (has(key) && object_[key].is_string()) return {object_[key].get<std::string>(), false};
  if (has(key) && object_[key].is_object()) {
    for (const char* kind : {"String", "Regex"}) {
      auto& value = object_[key];
      if (value.contains(kind) && value[kind].is_string()) return {value[kind].get<std::string>(), kind[0] == 'R'};
    }
  }
  fail(fmt::format("'{}' is missing; expected {{\"String\": …}} or {{\"Regex\": …}}", key));
  return {};
}

}  // namespace hone::text::tokenizer

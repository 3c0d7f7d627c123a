#include "hone/tinker/wire/json_fields.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace hone::tinker {
namespace {

[[noreturn]] void wrong_field(const Json& value, const char* name, const std::string& expected) {
  auto found = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (found.size() > 60) found = found.substr(0, 60) + "…";
  throw RequestError(fmt::format("{} is {}; expected {}", name, found, expected));
}

}  // namespace

bool has_field(const Json& body, const char* name) { return body.is_object() && body.contains(name) && !body[name].is_null(); }

std::string text_field(const Json& body, const char* name, const std::string& otherwise) {
  if (!has_field(body, name)) return otherwise;
  if (!body[name].is_string()) wrong_field(body[name], name, "a string");
  return body[name].get<std::string>();
}

std::string required_text(const Json& body, const char* name) {
  auto value = text_field(body, name, "");
  if (value.empty()) throw RequestError(fmt::format("{} is missing; expected a string", name));
  return value;
}

std::string required_name(const Json& body, const char* name, size_t most, const char* message) {
  auto text = required_text(body, name);
  const auto plain = [](unsigned char c) { return c < 0x80 && (std::isalnum(c) || c == '.' || c == '_' || c == '-'); };
  if (text.size() > most || !std::ranges::all_of(text, plain)) throw RequestError(message);
  return text;
}

int64_t integer_field(const Json& body, const char* name, int64_t otherwise, int64_t low, int64_t high) {
  if (!has_field(body, name)) return otherwise;
  const auto& value = body[name];
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    wrong_field(value, name, "a whole number of 64 bits");
  if (!value.is_number_integer()) wrong_field(value, name, "a whole number");
  const auto number = value.get<int64_t>();
  const bool has_end = high != std::numeric_limits<int64_t>::max();
  if (number < low || number > high)
    wrong_field(value, name, has_end ? fmt::format("{} to {}", low, high) : fmt::format("at least {}", low));
  return number;
}

int64_t required_integer(const Json& body, const char* name, int64_t low) {
  if (!has_field(body, name)) throw RequestError(fmt::format("{} is missing; expected a whole number", name));
  return integer_field(body, name, 0, low);
}

double real_field(const Json& body, const char* name, double otherwise, double low, double high) {
  if (!has_field(body, name)) return otherwise;
  if (!body[name].is_number()) wrong_field(body[name], name, "a number");
  const auto number = body[name].get<double>();
  if (!std::isfinite(number) || number < low || number > high) wrong_field(body[name], name, fmt::format("{} to {}", low, high));
  return number;
}

bool flag_field(const Json& body, const char* name, bool otherwise) {
  if (!has_field(body, name)) return otherwise;
  if (!body[name].is_boolean()) wrong_field(body[name], name, "true or false");
  return body[name].get<bool>();
}

double ttl_seconds(const Json& body) {
  constexpr int64_t kTenYears = int64_t{3653} * 86400;
  return static_cast<double>(integer_field(body, "ttl_seconds", 0, 1, kTenYears));
}

}  // namespace hone::tinker

#include <charconv>
#include <cmath>

#include "hone/base/file.h"
#include "hone/base/strings/lower_case.h"
#include "hone/cli/option.h"

namespace hone::cli {
namespace {

bool is_none(std::string_view word) {
  return word == "none" || word == "None" || word == "null" || word == "NULL" || word == "~";
}

Result<Json> read_flag(const Json& given) {
  if (given.is_boolean()) return given;
  if (given.is_number_integer() && (given == 0 || given == 1)) return Json(given == 1);
  if (given.is_string()) {
    auto word = lower_case(given.get_ref<const std::string&>());
    if (word == "true" || word == "yes" || word == "t" || word == "y" || word == "1" || word == "on") return Json(true);
    if (word == "false" || word == "no" || word == "f" || word == "n" || word == "0" || word == "off") return Json(false);
  }
  return error("expected true or false");
}

std::optional<double> to_number(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value;
  auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

constexpr double kLargestInteger = 9e15;  // a double is exact up to there

Result<Json> in_range(const Type& type, Json number) {
  double value = number.get<double>();
  if (value < type.low || value > type.high) return error("expected {}", describe(type));
  return number;
}

Result<Json> read_number(const Type& type, const Json& given) {
  std::optional<double> value;
  if (given.is_number()) value = given.get<double>();
  if (given.is_string()) value = to_number(given.get_ref<const std::string&>());
  if (!value || !std::isfinite(*value)) return error("expected {}", describe(type));
  if (type.kind == Kind::real) return in_range(type, Json(*value));
  if (*value != std::floor(*value)) return error("expected {}", describe(type));
  if (std::abs(*value) > kLargestInteger) return error("expected {}, {} at most", describe(type), kLargestInteger);
  return in_range(type, Json(static_cast<int64_t>(*value)));
}

// 2GB, 512MiB, 1.5G, 1024. Decimal units are powers of 1000, as Hugging Face counts shard sizes; …iB are powers of 1024.
Result<Json> read_bytes(const Json& given) {
  auto text = given.is_number() ? given.dump() : given.is_string() ? given.get<std::string>() : std::string();
  size_t split = text.find_first_not_of("0123456789.eE+-");
  auto unit = split == std::string::npos ? std::string() : lower_case(std::string_view(text).substr(split));
  auto number = to_number(std::string_view(text).substr(0, split));
  while (unit.starts_with(' ')) unit.erase(0, 1);
  static constexpr std::string_view kScales = "kmgt";
  double scale = 1;
  auto prefix = unit.empty() ? std::string_view::npos : kScales.find(unit[0]);
  size_t power = prefix == std::string_view::npos ? 0 : prefix + 1;
  auto suffix = power ? unit.substr(1) : unit;
  bool known = suffix.empty() || suffix == "b" || (power && suffix == "ib");
  if (!number || *number < 0 || !known) return error("expected a size such as 2GB or 512MiB");
  for (size_t i = 0; i < power; ++i) scale *= suffix == "ib" ? 1024 : 1000;
  double bytes = *number * scale;
  if (bytes > 9e18) return error("expected a size below 9EB");
  return Json(static_cast<int64_t>(bytes));
}

Result<Json> read_text(const Json& given) {
  if (given.is_string()) return given;
  if (given.is_number() || given.is_boolean()) return Json(given.dump());
  return error("expected one word, not {}", given.type_name());
}

// Dtypes also have a short name, the only one in ms-swift 2.
std::string_view long_type_name(std::string_view word) {
  return word == "bf16" ? "bfloat16" : word == "fp16" ? "float16" : word == "fp32" ? "float32" : word;
}

Result<Json> read_choice(const Type& type, const Json& given) {
  auto word = read_text(given);
  if (!word) return word;
  auto wanted = lower_case(word->get_ref<const std::string&>());
  std::string_view rest = type.choices;
  while (!rest.empty()) {
    auto choice = rest.substr(0, rest.find('|'));
    if (lower_case(choice) == wanted || choice == long_type_name(wanted)) return Json(choice);
    rest.remove_prefix(std::min(rest.size(), choice.size() + 1));
  }
  return error("expected {}", describe(type));
}

Result<Json> read_list(const Json& given, bool commas) {
  Json list = Json::array();
  auto add = [&list](std::string_view word) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) list.push_back(word);
  };
  auto add_word = [&](const std::string& word) {
    if (!commas || word.starts_with('{')) return list.push_back(word);  // a JSON object is one word
    for (std::string_view rest = word; !rest.empty();) {
      auto part = rest.substr(0, rest.find(','));
      add(part);
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    }
  };
  if (given.is_string() && given.get_ref<const std::string&>().starts_with('[')) {
    if (auto parsed = parse_json(given.get_ref<const std::string&>()); parsed && parsed->is_array())
      return read_list(*parsed, false);
  }
  if (!given.is_array()) {
    auto word = read_text(given);
    if (!word) return error("expected a list of words");
    add_word(word->get_ref<const std::string&>());
    return list;
  }
  for (const auto& item : given) {
    auto word = read_text(item);
    if (!word) return error("expected a list of words; one of them is {}", item.type_name());
    add_word(word->get_ref<const std::string&>());
  }
  return list;
}

Result<Json> read_json(const Json& given) {
  if (!given.is_string()) return given;
  const auto& text = given.get_ref<const std::string&>();
  auto first = text.find_first_not_of(" \t\n");
  if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
    auto parsed = parse_json(text);
    if (!parsed) return error("not valid JSON: {}", parsed.error());
    return parsed;
  }
  return given;  // a string or a path; the reader of the value opens it
}

std::string bound(double value) { return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value); }

}  // namespace

Result<Json> read_value(const Option& option, const Json& given, bool commas) {
  if (given.is_null()) return Json(nullptr);
  bool none = given.is_string() && is_none(given.get_ref<const std::string&>());
  switch (option.type.kind) {
    case Kind::flag:
      return none ? Result<Json>(Json(nullptr)) : read_flag(given);
    case Kind::integer:
    case Kind::real:
      if (none || given == "auto") return Json(nullptr);
      return read_number(option.type, given);
    case Kind::bytes:
      return none ? Result<Json>(Json(nullptr)) : read_bytes(given);
    case Kind::choice: {
      auto choice = read_choice(option.type, given);
      return !choice && (none || given == "auto" || given == "AUTO") ? Result<Json>(Json(nullptr)) : choice;
    }
    case Kind::list:
      return none ? Result<Json>(Json::array()) : read_list(given, commas);
    case Kind::json:
      return none ? Result<Json>(Json(nullptr)) : read_json(given);
    case Kind::text:
    case Kind::path:
      return none ? Result<Json>(Json(nullptr)) : read_text(given);
  }
  return error("expected {}", describe(option.type));
}

bool is_secret(std::string_view option) {
  return option.ends_with("_token") || option.ends_with("_secret") || option.ends_with("_webhook_url") ||
         option.ends_with("api_key");
}

Json without_passwords(Json value) {
  if (value.is_structured())
    for (auto& part : value) part = without_passwords(std::move(part));
  if (!value.is_string()) return value;
  auto& text = value.get_ref<std::string&>();
  for (size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 3)) {
    auto end = std::min(text.find_first_of("/?# \t\n,", at + 3), text.size());
    auto host = text.rfind('@', end);
    if (host == text.npos || host < at + 3 || host >= end) continue;
    text.replace(at + 3, host - at - 3, "(hidden)");
  }
  return value;
}

std::string describe(const Type& type) {
  auto ranged = [&](const char* word) -> std::string {
    bool low = std::isfinite(type.low), high = std::isfinite(type.high);
    if (low && high) return fmt::format("{} from {} to {}", word, bound(type.low), bound(type.high));
    if (low) return fmt::format("{} >= {}", word, bound(type.low));
    if (high) return fmt::format("{} <= {}", word, bound(type.high));
    return word;
  };
  switch (type.kind) {
    case Kind::flag:
      return "true or false";
    case Kind::integer:
      return ranged("an integer");
    case Kind::real:
      return ranged("a number");
    case Kind::text:
      return "text";
    case Kind::path:
      return "a path";
    case Kind::list:
      return "a list of words";
    case Kind::json:
      return "JSON, or a path to a JSON file";
    case Kind::bytes:
      return "a size such as 2GB";
    case Kind::choice:
      break;
  }
  std::string words = "one of ";
  for (char c : type.choices) words += c == '|' ? std::string(", ") : std::string(1, c);
  return words;
}

std::string show_value(const Json& value) {
  // User input may contain arbitrary bytes.
  auto dumped = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_array()) return dumped(value);
  std::string words;
  for (const auto& item : value)
    words += (words.empty() ? "" : " ") + (item.is_string() ? item.get<std::string>() : dumped(item));
  return words.empty() ? "[]" : words;
}

}  // namespace hone::cli

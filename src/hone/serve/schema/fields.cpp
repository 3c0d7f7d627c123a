#include "hone/serve/schema/fields.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/base/strings/counted.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

std::string plain_number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

bool is_whole(const Json& value) {
  return value.is_number_integer() || (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
}

bool fits(const Field& field, const Json& value) {
  auto within = [&](double size) { return size >= field.low && size <= field.high; };  // false for NaN
  switch (field.kind) {
    case FieldKind::flag:
      return value.is_boolean();
    case FieldKind::integer:
      return is_whole(value) && within(value.get<double>());
    case FieldKind::real:
      return value.is_number() && within(value.get<double>());
    case FieldKind::text:
      return value.is_string() && within(static_cast<double>(value.get_ref<const std::string&>().size()));
    case FieldKind::list:
      return value.is_array() && within(static_cast<double>(value.size()));
    case FieldKind::object:
      return value.is_object() && within(static_cast<double>(value.size()));
    case FieldKind::text_or_list:
      return value.is_string() || (value.is_array() && within(static_cast<double>(value.size())));
    case FieldKind::text_or_object:
      return value.is_string() || value.is_object();
    case FieldKind::text_or_flag:
      return value.is_string() || value.is_boolean();
    case FieldKind::any:
      return true;
  }
  return false;
}

std::string shown(const Json& value) {
  if (value.is_string()) return "a text of " + counted(value.get_ref<const std::string&>().size(), "byte");
  if (value.is_array()) return "a list of " + counted(value.size(), "item");
  if (value.is_object()) return "an object of " + counted(value.size(), "key");
  return dump(value);
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

std::string nearest(Endpoint endpoint, std::string_view name) {
  if (name.size() > 64) return "";
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  std::string found;
  for (const auto& field : field_table())
    if (size_t far = distance(name, field.name); (field.endpoints & endpoint) && far < best) best = far, found = field.name;
  return found;
}

}  // namespace

std::string allowed_values(const Field& field) {
  auto range = fmt::format("from {} to {}", plain_number(field.low), plain_number(field.high));
  switch (field.kind) {
    case FieldKind::flag:
      return "true or false";
    case FieldKind::integer:
      return "an integer " + range;
    case FieldKind::real:
      return "a number " + range;
    case FieldKind::text:
      if (field.high == 0) return "an empty text";
      return fmt::format("a text of {} to {} bytes", plain_number(field.low), plain_number(field.high));
    case FieldKind::list:
      return fmt::format("a list of {} to {} items", plain_number(field.low), plain_number(field.high));
    case FieldKind::object:
      return fmt::format("an object of at most {} keys", plain_number(field.high));
    case FieldKind::text_or_list:
      return fmt::format("a text or a list of at most {} items", plain_number(field.high));
    case FieldKind::text_or_object:
      return "a text or an object";
    case FieldKind::text_or_flag:
      return "a text, true or false";
    case FieldKind::any:
      return "a text or a list";
  }
  return "";
}

void bad_value(const std::string& where, const std::string& message) {
  throw ApiError(400, fmt::format("{}: {}", where, message), where, "invalid_value");
}

const Json& member(const Json& object, const char* name) {
  static const Json kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string text_field(const Json& object, const char* name, const std::string& where) {
  const auto& text = member(object, name);
  if (!text.is_string()) bad_value(where + "." + name, "expected a text");
  return text.get<std::string>();
}

std::string kind_name(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return "a text";
  if (value.is_boolean()) return "true or false";
  if (value.is_number()) return "a number";
  return value.is_array() ? "a list" : "an object";
}

const Field* find_field(Endpoint endpoint, std::string_view name) {
  for (const auto& field : field_table())
    if ((field.endpoints & endpoint) && field.name == name) return &field;
  return nullptr;
}

Fields::Fields(Endpoint endpoint, const Json& body) : endpoint_(endpoint), body_(body) {
  for (const auto& [name, value] : body.items()) {
    const Field* field = find_field(endpoint, name);
    if (!field) {
      auto near = nearest(endpoint, name);
      auto message = fmt::format("unrecognized request argument supplied: {}", name.substr(0, 64));
      throw ApiError(400, near.empty() ? message : fmt::format("{}; did you mean {}?", message, near), name.substr(0, 64),
                     "unknown_parameter");
    }
    if (!value.is_null() && !fits(*field, value))
      bad_value(name, fmt::format("found {}; expected {}", shown(value), allowed_values(*field)));
  }
  for (const auto& field : field_table())
    if (field.required && (field.endpoints & endpoint) && !find(field.name))
      throw ApiError(400, fmt::format("you must provide {}", field.name), std::string(field.name), "missing_required_parameter");
}

const Json* Fields::find(std::string_view name) const {
  HONE_CHECK(find_field(endpoint_, name), "no row for {}", name);
  auto found = body_.find(std::string(name));
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::flag(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  return value ? value->get<bool>() : fallback;
}

int64_t Fields::integer(std::string_view name, int64_t fallback) const {
  const Json* value = find(name);
  if (!value) return fallback;
  return value->is_number_float() ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
}

double Fields::real(std::string_view name, double fallback) const {
  const Json* value = find(name);
  return value ? value->get<double>() : fallback;
}

std::string Fields::text(std::string_view name, std::string_view fallback) const {
  const Json* value = find(name);
  return value ? value->get<std::string>() : std::string(fallback);
}

const Json& Fields::json(std::string_view name) const {
  static const Json kNone;
  const Json* value = find(name);
  return value ? *value : kNone;
}

std::vector<std::string> Fields::texts(std::string_view name, size_t most, size_t most_bytes) const {
  const Json* value = find(name);
  if (!value) return {};
  Json list = value->is_string() ? Json::array({*value}) : *value;
  std::vector<std::string> out;
  for (const auto& item : list) {
    auto where = fmt::format("{}[{}]", name, out.size());
    if (!item.is_string()) bad_value(where, fmt::format("found {}; expected a text", kind_name(item)));
    if (out.size() >= most) bad_value(std::string(name), fmt::format("more than {} items", most));
    auto text = item.get<std::string>();
    if (text.empty() || text.size() > most_bytes)
      bad_value(where, fmt::format("found {} bytes; expected 1 to {}", text.size(), most_bytes));
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace hone::serve

#include "hone/text/templates/python_json.h"

#include <cmath>

namespace hone::text {
namespace {

// repr(float): the shortest digits that read back, with a point or an exponent of at least two digits.
std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  double magnitude = std::fabs(value);
  if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    auto text = fmt::format("{:e}", value);
    for (int digits = 0; digits <= 16; ++digits)
      if (auto shorter = fmt::format("{:.{}e}", value, digits); std::stod(shorter) == value) {
        text = shorter;
        break;
      }
    return text;
  }
  auto text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void dump(const Json& value, int indent, int depth, std::string& out) {
  auto new_line = [&](int level) {
    out += '\n';
    out.append(static_cast<size_t>(indent * level), ' ');
  };
  if (value.is_object() || value.is_array()) {
    bool object = value.is_object();
    if (value.empty()) {
      out += object ? "{}" : "[]";
      return;
    }
    out += object ? '{' : '[';
    bool first = true;
    for (auto item = value.begin(); item != value.end(); ++item) {
      if (!first) out += indent ? "," : ", ";
      first = false;
      if (indent) new_line(depth + 1);
      if (object) {
        out += Json(item.key()).dump();
        out += ": ";
      }
      dump(*item, indent, depth + 1, out);
    }
    if (indent) new_line(depth);
    out += object ? '}' : ']';
  } else if (value.is_number_float()) {
    out += float_repr(value.get<double>());
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

// repr(str): single quotes unless the text has them and no double ones.
std::string quoted(const std::string& text) {
  bool use_double = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (char c : text) {
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out += quote;
}

void literal(const Json& value, std::string& out) {
  if (value.is_string())
    out += quoted(value.get_ref<const std::string&>());
  else if (value.is_boolean())
    out += value.get<bool>() ? "True" : "False";
  else if (value.is_null())
    out += "None";
  else if (value.is_number())
    dump(value, 0, 0, out);
  else {
    bool object = value.is_object(), first = true;
    out += object ? '{' : '[';
    for (auto item = value.begin(); item != value.end(); ++item) {
      if (!first) out += ", ";
      first = false;
      if (object) (out += quoted(item.key())) += ": ";
      literal(*item, out);
    }
    out += object ? '}' : ']';
  }
}

}  // namespace

std::string python_dumps(const Json& value, int indent) {
  std::string out;
  dump(value, indent, 0, out);
  return out;
}

std::string python_str(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string out;
  literal(value, out);
  return out;
}

}  // namespace hone::text

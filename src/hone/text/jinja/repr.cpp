#include "hone/text/jinja/repr.h"

#include <charconv>
#include <cmath>

#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

void append_repr(Interpreter& interpreter, const Value& value, std::string& out);

void append_items(Interpreter& interpreter, const std::vector<Value>& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(interpreter, items[i], out);
  }
}

void append_list(Interpreter& interpreter, const ListObject& list, std::string& out) {
  static constexpr const char* kOpen[] = {"[", "(", "range(", "dict_keys([", "dict_values([", "dict_items(["};
  static constexpr const char* kClose[] = {"]", ")", ")", "])", "])", "])"};
  auto flavor = static_cast<size_t>(list.flavor);
  out += kOpen[flavor];
  if (list.flavor == Sequence::range) {
    out += fmt::format("{}, {}", list.start, list.stop);
    if (list.step != 1) out += fmt::format(", {}", list.step);
  } else {
    append_items(interpreter, list.items, out);
    if (list.flavor == Sequence::tuple && list.items.size() == 1) out += ',';
  }
  out += kClose[flavor];
}

void append_dict(Interpreter& interpreter, const DictObject& dict, std::string& out) {
  out += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(interpreter, dict.items[i].first, out);
    out += ": ";
    append_repr(interpreter, dict.items[i].second, out);
  }
  out += '}';
}

void append_repr(Interpreter& interpreter, const Value& value, std::string& out) {
  interpreter.check_stack();
  interpreter.step();
  interpreter.check_size(out.size());
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.as_bool() ? "True" : "False";
      break;
    case Kind::integer:
      out += std::to_string(value.as_integer());
      break;
    case Kind::real:
      out += repr_real(value.as_real());
      break;
    case Kind::string:
      interpreter.charge_bytes(value.text().size());
      out += value.is_markup() ? "Markup(" + repr_string(value.text()) + ")" : repr_string(value.text());
      break;
    case Kind::list:
      append_list(interpreter, value.as_list(), out);
      break;
    case Kind::dict:
      append_dict(interpreter, value.as_dict(), out);
      break;
    case Kind::native:
      out += value.as_native().show(interpreter);
      break;
  }
}

}  // namespace

std::string repr(Interpreter& interpreter, const Value& value) {
  std::string out;
  append_repr(interpreter, value, out);
  return out;
}

std::string repr_string(std::string_view text) {
  char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    char32_t point = next_code_point(text, i);
    if (point == static_cast<char32_t>(quote) || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (is_printable(point)) {
      append_utf8(out, point);
    } else if (point < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(point));
    } else if (point < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(point));
    }
  }
  out += quote;
  return out;
}

std::string repr_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  size_t mark = scientific.find('e');
  int exponent = std::stoi(std::string(scientific.substr(mark + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

}  // namespace hone::text::jinja

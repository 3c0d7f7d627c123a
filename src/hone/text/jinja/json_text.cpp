#include "hone/text/jinja/json_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

constexpr int kMaxDepth = 250;

Value convert(const Json& json, int depth) {
  if (depth > kMaxDepth) throw TemplateFailure("the variables are nested too deeply");
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw TemplateFailure("integer " + json.dump() + " in the variables does not fit 64 bits");
      }
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string:
      return Value::string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item, depth + 1));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, value] : json.items()) items.emplace_back(Value::string(key), convert(value, depth + 1));
      return make_dict(std::move(items));
    }
    default:
      return Value::none();
  }
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonStyle& style) : interpreter_(interpreter), style_(style) {}

  void write(const Value& value, size_t level) {
    interpreter_.check_stack();
    interpreter_.step();
    interpreter_.check_size(out_.size());
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        return;
      case Kind::boolean:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::integer:
        out_ += std::to_string(value.as_integer());
        return;
      case Kind::real:
        out_ += number(value.as_real());
        return;
      case Kind::string:
        write_string(value.text());
        return;
      case Kind::dict:
        write_dict(value.as_dict(), level);
        return;
      case Kind::list:
        if (value.as_list().flavor <= Sequence::tuple) return write_list(value.as_list(), level);
        break;
      default:
        break;
    }
    throw TemplateFailure("Object of type " + type_name(value) + " is not JSON serializable");
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return repr_real(value);
  }

  void line_break(size_t level) {
    if (!style_.multiline) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += style_.indent;
    interpreter_.check_size(out_.size());
  }

  void write_list(const ListObject& list, size_t level) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      line_break(level + 1);
      write(list.items[i], level + 1);
    }
    line_break(level);
    out_ += ']';
  }

  void write_dict(const DictObject& dict, size_t level) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.items) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return less_than(a->first, b->first); });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      line_break(level + 1);
      write_string(key_text(entries[i]->first));
      out_ += style_.key_separator;
      write(entries[i]->second, level + 1);
    }
    line_break(level);
    out_ += '}';
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as_bool() ? "true" : "false";
      case Kind::integer:
        return std::to_string(key.as_integer());
      case Kind::real:
        return number(key.as_real());
      default:
        throw TemplateFailure("keys must be str, int, float, bool or None, not " + type_name(key));
    }
  }

  void write_string(std::string_view text) {
    interpreter_.charge_bytes(text.size());
    out_ += '"';
    for (size_t i = 0; i < text.size();) {
      auto c = static_cast<unsigned char>(text[i]);
      if (c >= 0x80) {
        write_beyond_ascii(text, i);
        continue;
      }
      ++i;
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case 0x7F:
          out_ += static_cast<char>(c);
          break;
        default:
          if (c < 0x20) {
            out_ += fmt::format("\\u{:04x}", c);
          } else {
            out_ += static_cast<char>(c);
          }
      }
    }
    out_ += '"';
  }

  void write_beyond_ascii(std::string_view text, size_t& i) {
    size_t begin = i;
    char32_t point = next_code_point(text, i);
    if (!style_.ensure_ascii) {
      out_ += text.substr(begin, i - begin);
    } else if (point < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      uint32_t rest = static_cast<uint32_t>(point) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

Value from_json(const Json& json) { return convert(json, 0); }

std::string to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  JsonWriter writer(interpreter, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace hone::text::jinja

#include <algorithm>
#include <charconv>

#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/repr.h"

namespace hone::text::jinja {

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments) : interpreter_(interpreter), arguments_(arguments) {}

  std::string format(std::string_view text, int depth) {
    if (depth > 2) throw TemplateFailure("Max string recursion exceeded");
    std::string out;
    for (size_t i = 0; i < text.size();) {
      char c = text[i];
      bool doubled = i + 1 < text.size() && text[i + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        i += 2;
      } else if (c == '{') {
        size_t close = matching_brace(text, i);
        out += field(text.substr(i + 1, close - i - 1), depth);
        i = close + 1;
      } else if (c == '}') {
        throw TemplateFailure("Single '}' encountered in format string");
      } else {
        out += c;
        ++i;
      }
      interpreter_.check_size(out.size());
    }
    return out;
  }

 private:
  static size_t matching_brace(std::string_view text, size_t open) {
    int level = 0;
    for (size_t i = open; i < text.size(); ++i) {
      level += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
      if (level == 0) return i;
    }
    throw TemplateFailure("expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    size_t name_end = std::min(text.find_first_of(":!"), text.size());
    for (size_t bracket = text.find('['); bracket < name_end;) {  // ':' and '!' inside [] belong to the key
      size_t close = text.find(']', bracket);
      if (close == std::string_view::npos) throw TemplateFailure("expected '}' before end of string");
      name_end = std::min(text.find_first_of(":!", close), text.size());
      bracket = text.find('[', close);
    }
    Value value = resolve(text.substr(0, name_end));
    text.remove_prefix(name_end);
    if (text.starts_with('!')) {
      if (text.size() < 2) throw TemplateFailure("end of string while looking for conversion specifier");
      char conversion = text[1];
      text.remove_prefix(2);
      if (!text.empty() && text[0] != ':') throw TemplateFailure("expected ':' after conversion specifier");
      value = convert(value, conversion);
    }
    std::string spec = text.starts_with(':') ? format(text.substr(1), depth + 1) : "";
    return format_value(interpreter_, value, spec);
  }

  Value convert(const Value& value, char conversion) {
    if (conversion == 's') return interpreter_.string(interpreter_.to_text(value));
    if (conversion == 'r' || conversion == 'a') return interpreter_.string(repr(interpreter_, value));
    throw TemplateFailure(fmt::format("Unknown conversion specifier '{}'", conversion));
  }

  Value resolve(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    // Only a completely empty field is numbered; "{[a]}" names an argument "".
    if (end == 0 && !name.empty()) throw TemplateFailure("KeyError: ''");
    Value value = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (name[0] == '.') {
        end = std::min(name.find_first_of(".[", 1), name.size());
        if (end == 1) throw TemplateFailure("Empty attribute in format string");
        value = interpreter_.get_attribute(value, name.substr(1, end - 1));
        name.remove_prefix(end);
      } else if (name[0] == '[') {
        end = name.find(']');
        if (end == std::string_view::npos || end == 1) throw TemplateFailure("Empty attribute in format string");
        std::string_view key = name.substr(1, end - 1);
        int64_t index = 0;
        bool number = std::from_chars(key.data(), key.data() + key.size(), index).ptr == key.data() + key.size();
        value = interpreter_.get_item(value, number ? Value::integer(index) : Value::string(std::string(key)));
        name.remove_prefix(end + 1);
      } else {
        throw TemplateFailure("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    size_t index = 0;
    bool number =
        !name.empty() && std::from_chars(name.data(), name.data() + name.size(), index).ptr == name.data() + name.size();
    if (name.empty() || number) {
      if (numbering_ != Numbering::unknown && (numbering_ == Numbering::manual) != number) {
        throw TemplateFailure("cannot switch between manual field specification and automatic field numbering");
      }
      numbering_ = number ? Numbering::manual : Numbering::automatic;
      if (!number) index = next_++;
      if (index >= arguments_.positional.size())
        throw TemplateFailure("Replacement index out of range for positional args tuple");
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    throw TemplateFailure("KeyError: '" + std::string(name) + "'");
  }

  enum class Numbering { unknown, automatic, manual };
  Interpreter& interpreter_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::unknown;
  size_t next_ = 0;
};

}  // namespace

std::string brace_format(Interpreter& interpreter, std::string_view format, const Arguments& arguments) {
  return BraceFormatter(interpreter, arguments).format(format, 0);
}

}  // namespace hone::text::jinja

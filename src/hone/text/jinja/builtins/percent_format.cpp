// "%s" % x
#include <algorithm>

#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/builtins/format_spec.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/number_text.h"
#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, std::string_view format, const Value& values)
      : interpreter_(interpreter), format_(format), values_(values) {
    is_tuple_ = values.is(Kind::list) && values.as_list().flavor == Sequence::tuple;
  }

  std::string run() {
    while (at_ < format_.size()) {
      size_t percent = format_.find('%', at_);
      out_ += format_.substr(at_, percent == std::string_view::npos ? percent : percent - at_);
      if (percent == std::string_view::npos) break;
      at_ = percent + 1;
      convert();
      interpreter_.check_size(out_.size());
    }
    size_t given = is_tuple_ ? values_.as_list().items.size() : 1;
    bool subscriptable = values_.is(Kind::list) && !is_tuple_ && values_.as_list().flavor <= Sequence::range;
    bool may_ignore = subscriptable || values_.is(Kind::dict) || values_.is(Kind::undefined);
    if (used_ < given && !may_ignore) throw TemplateFailure("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  Value next_value() {
    if (is_tuple_ && used_ < values_.as_list().items.size()) return values_.as_list().items[used_++];
    if (is_tuple_ || used_ > 0) throw TemplateFailure("not enough arguments for format string");
    ++used_;
    return values_;
  }

  char peek() const {
    if (at_ >= format_.size()) throw TemplateFailure("incomplete format");
    return format_[at_];
  }

  int64_t read_count() {
    if (peek() == '*') {
      ++at_;
      return require_integer(next_value());
    }
    return is_digit_at(format_, at_) ? read_number(format_, at_) : 0;
  }

  void convert() {
    Value keyed;
    if (peek() == '(') {
      size_t close = format_.find(')', at_);
      if (close == std::string_view::npos) throw TemplateFailure("incomplete format key");
      if (!values_.is(Kind::dict)) throw TemplateFailure("format requires a mapping");
      std::string_view key = format_.substr(at_ + 1, close - at_ - 1);
      const Value* value = values_.as_dict().find(key);
      if (value == nullptr) throw TemplateFailure("KeyError: '" + std::string(key) + "'");
      keyed = *value;
      at_ = close + 1;
    }
    FormatSpec spec;
    bool left = false;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      char flag = format_[at_];
      if (flag == '-') left = true;
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zero = true;
    }
    spec.width = read_count();
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(0, read_count());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    spec.align = left ? '<' : '>';
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    out_ += convert_value(keyed.is(Kind::missing) ? next_value() : keyed, spec, left);
  }

  std::string convert_value(const Value& value, FormatSpec spec, bool left) {
    switch (spec.type) {
      case 's':
        return text_field(interpreter_.to_text(value), spec);
      case 'r':
      case 'a':
        return text_field(repr(interpreter_, value), spec);
      case 'c':
        return text_field(character(value), spec);
      case 'd':
      case 'i':
      case 'u':
        return number_field(integer_of(value, true), spec, left, 'd');
      case 'x':
      case 'X':
      case 'o':
        return number_field(integer_of(value, false), spec, left, spec.type);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        if (!spec.precision) spec.precision = 6;
        return number_field(Value::real(require_real(value)), spec, left, spec.type);
      default:
        throw TemplateFailure(fmt::format("unsupported format character '{}'", spec.type));
    }
  }

  std::string text_field(const std::string& text, FormatSpec spec) {
    spec.type = 's';
    spec.sign = '-';
    spec.zero = false;
    return format_text(interpreter_, text, spec);
  }

  static std::string character(const Value& value) {
    if (value.is(Kind::string) && value.as_string().length() == 1) return value.text();
    if (!value.is_integral() || value.as_integer() < 0 || value.as_integer() > 0x10FFFF)
      throw TemplateFailure("%c requires int or char");
    std::string out;
    append_utf8(out, static_cast<char32_t>(value.as_integer()));
    return out;
  }

  static Value integer_of(const Value& value, bool truncates) {
    if (value.is_integral()) return Value::integer(value.as_integer());
    if (value.is(Kind::real) && truncates) return Value::integer(truncate_real(value.as_real()));
    throw TemplateFailure("%d format: a real number is required, not " + type_name(value));
  }

  std::string number_field(const Value& value, FormatSpec spec, bool left, char type) {
    spec.type = type;
    if (spec.zero && !left) {
      spec.fill = "0";
      spec.align = '=';
    }
    if (!value.is(Kind::integer) || !spec.precision) return format_number(interpreter_, value, spec);
    // In % formatting the precision of an integer is its minimum number of digits.
    int64_t digits = checked_precision(*spec.precision);
    spec.precision.reset();
    FormatSpec bare;
    bare.type = type;
    bool negative = value.as_integer() < 0;
    std::string body = format_number(interpreter_, value, bare).substr(negative ? 1 : 0);
    body = repeat_text(interpreter_, "0", digits - static_cast<int64_t>(body.size())) + body;
    std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    return align_text(interpreter_, sign, body, spec, '>');
  }

  Interpreter& interpreter_;
  std::string_view format_;
  const Value& values_;
  bool is_tuple_ = false;
  size_t at_ = 0, used_ = 0;
  std::string out_;
};

}  // namespace

std::string percent_format(Interpreter& interpreter, std::string_view format, const Value& arguments) {
  return PercentFormatter(interpreter, format, arguments).run();
}

}  // namespace hone::text::jinja

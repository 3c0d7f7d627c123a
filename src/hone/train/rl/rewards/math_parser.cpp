#include "hone/train/rl/rewards/math_parser.h"

#include <array>
#include <charconv>
#include <cmath>

namespace hone::train::rl {
namespace {

constexpr int kDeepest = 100;  // completions come from a model, which may open brackets endlessly

using Operands = std::vector<double>;
using Compute = MathExpression::Compute;

double add(const Operands& x) { return x[0] + x[1]; }
double subtract(const Operands& x) { return x[0] - x[1]; }
double multiply(const Operands& x) { return x[0] * x[1]; }
double divide(const Operands& x) { return x[0] / x[1]; }
double negate(const Operands& x) { return -x[0]; }
double power(const Operands& x) { return std::pow(x[0], x[1]); }
double root(const Operands& x) { return x[1] == 2 ? std::sqrt(x[0]) : x[1] == 3 ? std::cbrt(x[0]) : std::pow(x[0], 1 / x[1]); }
double logarithm(const Operands& x) { return std::log(x[0]) / std::log(x[1]); }
double factorial(const Operands& x) { return x[0] == std::floor(x[0]) ? std::tgamma(x[0] + 1) : std::nan(""); }
double magnitude(const Operands& x) { return std::fabs(x[0]); }
double choose(const Operands& x) {
  return std::round(std::exp(std::lgamma(x[0] + 1) - std::lgamma(x[1] + 1) - std::lgamma(x[0] - x[1] + 1)));
}
double per_hundred(const Operands& x) { return x[0] / 100; }

struct Function {
  std::string_view name;
  Compute compute;
};
constexpr std::array kFunctions = {
    Function{"arcsin", [](const Operands& x) { return std::asin(x[0]); }},
    Function{"arccos", [](const Operands& x) { return std::acos(x[0]); }},
    Function{"arctan", [](const Operands& x) { return std::atan(x[0]); }},
    Function{"sinh", [](const Operands& x) { return std::sinh(x[0]); }},
    Function{"cosh", [](const Operands& x) { return std::cosh(x[0]); }},
    Function{"tanh", [](const Operands& x) { return std::tanh(x[0]); }},
    Function{"sin", [](const Operands& x) { return std::sin(x[0]); }},
    Function{"cos", [](const Operands& x) { return std::cos(x[0]); }},
    Function{"tan", [](const Operands& x) { return std::tan(x[0]); }},
    Function{"cot", [](const Operands& x) { return 1 / std::tan(x[0]); }},
    Function{"sec", [](const Operands& x) { return 1 / std::cos(x[0]); }},
    Function{"csc", [](const Operands& x) { return 1 / std::sin(x[0]); }},
    Function{"exp", [](const Operands& x) { return std::exp(x[0]); }},
    Function{"ln", [](const Operands& x) { return std::log(x[0]); }},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Recursive descent; stops at the first unexpected token.
class MathParser {
 public:
  explicit MathParser(std::string_view text) : text_(text) {}

  std::optional<MathExpression> whole() {
    auto value = sum();
    skip_spaces();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  using Value = MathExpression;

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    if (word.size() > 1 && word[0] == '\\' && at_ + word.size() < text_.size() && is_letter(word.back()) &&
        is_letter(text_[at_ + word.size()]))
      return false;
    at_ += word.size();
    return true;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  Value fail() {
    failed_ = true;
    at_ = text_.size();
    return Value::number(std::nan(""));
  }
  template <class... Values>
  static Value call(Compute compute, Values... operands) {
    std::vector<Value> list;
    list.reserve(sizeof...(operands));
    (list.push_back(std::move(operands)), ...);
    return Value::apply(compute, std::move(list));
  }

  Value sum() {
    if (++depth_ > kDeepest) return fail();
    auto left = product();
    for (;;) {
      if (take("+"))
        left = call(add, std::move(left), product());
      else if (take("-"))
        left = call(subtract, std::move(left), product());
      else
        break;
    }
    --depth_;
    return left;
  }

  bool begins_factor() {
    char c = peek();
    if (c == '\\') {
      auto rest = text_.substr(at_);
      for (std::string_view no : {"\\cdot", "\\times", "\\div", "\\}", "\\right", "\\rvert"})
        if (rest.starts_with(no)) return false;
      return true;
    }
    return is_digit(c) || is_letter(c) || c == '(' || c == '{' || c == '.' || c == '[';
  }

  Value product() {
    auto left = signed_factor();
    while (!failed_) {
      if (take("**"))
        left = call(power, std::move(left), signed_factor());
      else if (take("*") || take("\\cdot") || take("\\times"))
        left = call(multiply, std::move(left), signed_factor());
      else if (take("/") || take("\\div") || take(":"))
        left = call(divide, std::move(left), signed_factor());
      else if (mixed_number(left))
        left = call(add, std::move(left), raised());
      else if (begins_factor())
        left = call(multiply, std::move(left), raised());
      else
        break;
    }
    return left;
  }

  // 1\frac{1}{2} is one and a half.
  bool mixed_number(const Value& left) {
    return left.is_number() && ended_in_digit_ && peek() == '\\' && text_.substr(at_).starts_with("\\frac");
  }

  Value signed_factor() {
    if (++depth_ > kDeepest) return fail();
    auto value = take("-") ? call(negate, signed_factor()) : take("+") ? signed_factor() : raised();
    --depth_;
    return value;
  }

  Value raised() {
    auto base = primary();
    for (;;) {
      if (take("!"))
        base = call(factorial, std::move(base));
      else if (take("%"))
        base = call(per_hundred, std::move(base));
      else if (peek() == '^')
        return ++at_, call(power, std::move(base), exponent());
      else
        return base;
    }
  }

  Value exponent() {
    if (++depth_ > kDeepest) return fail();
    auto value = take("-") ? call(negate, argument()) : argument();
    --depth_;
    return value;
  }

  // A braced group or a single token: \frac12, x^2.
  Value argument() {
    if (take("{")) return closed(sum(), "}");
    if (char c = peek(); is_digit(c)) return ++at_, Value::number(c - '0');
    return primary();
  }
  Value closed(Value inner, std::string_view bracket) {
    if (!take(bracket)) return fail();
    ended_in_digit_ = false;
    return inner;
  }

  Value primary() {
    if (++depth_ > kDeepest) return fail();
    auto value = unbounded_primary();
    --depth_;
    return value;
  }

  Value unbounded_primary() {
    char c = peek();
    bool digit = is_digit(c) || c == '.';
    ended_in_digit_ = digit;
    if (digit) return written_number();
    if (take("(")) return closed(sum(), ")");
    if (take("{")) return closed(sum(), "}");
    if (take("[")) return closed(sum(), "]");
    if (take("|")) return call(magnitude, closed(sum(), "|"));
    if (c == '\\') return command();
    if (is_letter(c)) return letter();
    return fail();
  }

  Value written_number() {
    double value = 0;
    auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value, std::chars_format::fixed);
    if (status != std::errc()) return fail();
    at_ = static_cast<size_t>(end - text_.data());
    return Value::number(value);
  }

  Value letter() {
    for (const auto& [name, compute] : kFunctions)
      if (text_.substr(at_).starts_with(name)) return at_ += name.size(), call(compute, function_argument());
    if (text_.substr(at_).starts_with("sqrt")) return at_ += 4, call(root, function_argument(), Value::number(2));
    if (text_.substr(at_).starts_with("pi")) return at_ += 2, Value::number(M_PI);
    std::string name(1, text_[at_++]);
    if (name == "e") return Value::number(M_E);
    return with_index(std::move(name));
  }

  Value with_index(std::string name) {
    if (peek() != '_') return Value::unknown(std::move(name));
    ++at_;
    size_t end = peek() == '{' ? text_.find('}', at_) : at_;
    if (end == text_.npos || end >= text_.size()) return fail();
    name += "_" + std::string(text_.substr(at_, end + 1 - at_));
    at_ = end + 1;
    return Value::unknown(std::move(name));
  }

  Value command() {
    if (take("\\frac")) return fraction(divide);
    if (take("\\binom")) return fraction(choose);
    if (take("\\sqrt")) {
      auto degree = take("[") ? closed(sum(), "]") : Value::number(2);
      return call(root, argument(), std::move(degree));
    }
    if (take("\\pi")) return Value::number(M_PI);
    if (take("\\infty")) return Value::number(HUGE_VAL);
    if (take("\\lvert")) return call(magnitude, closed(sum(), "\\rvert"));
    if (take("\\log")) {
      auto base = peek() == '_' ? (++at_, argument()) : Value::number(10);
      return call(logarithm, function_argument(), std::move(base));
    }
    for (const auto& [name, compute] : kFunctions)
      if (take("\\" + std::string(name))) return call(compute, function_argument());
    return greek_letter();
  }

  Value fraction(Compute compute) {
    auto upper = argument();
    return call(compute, std::move(upper), argument());
  }

  // \sin x and \sin(x); \sin^2 x is not supported.
  Value function_argument() {
    char c = peek();
    return c == '(' || c == '{' ? primary() : raised();
  }

  Value greek_letter() {
    size_t end = ++at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    if (end == at_) return fail();
    auto name = std::string(text_.substr(at_, end - at_));
    at_ = end;
    return with_index(std::move(name));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false, ended_in_digit_ = false;
};

}  // namespace

std::optional<MathExpression> parse_math(std::string_view text) {
  if (text.size() > kLongestMath) return std::nullopt;
  return MathParser(text).whole();
}

}  // namespace hone::train::rl

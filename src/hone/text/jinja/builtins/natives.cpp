#include "hone/text/jinja/builtins/natives.h"

#include <cmath>
#include <limits>

#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {
constexpr int kMaxGeneratorChain = 100;
}

Value Namespace::attribute(Interpreter& interpreter, std::string_view name) {
  interpreter.step(names.size() / 16);
  for (const auto& [key, value] : names)
    if (key == name) return value;
  return Value();
}

Value Namespace::item(Interpreter& interpreter, const Value& key) {
  return key.is(Kind::string) ? attribute(interpreter, key.text()) : Value();
}

std::string Namespace::show(Interpreter& interpreter) {
  std::string out = "<Namespace {";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ", ";
    out += repr_string(names[i].first) + ": " + repr(interpreter, names[i].second);
  }
  return out + "}>";
}

void Namespace::set(const std::string& name, Value value) {
  if (name.starts_with('_')) {
    throw TemplateFailure("Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" + name + "'.");
  }
  for (auto& [key, old] : names) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

Value make_function(std::string name, Function::Body body) {
  return Value::object(Kind::native, new Function(std::move(name), std::move(body)));
}

Value make_generator(const Value& source, Generator::Body body) {
  auto* inner = source.is(Kind::native) ? dynamic_cast<Generator*>(&source.as_native()) : nullptr;
  int depth = inner == nullptr ? 1 : inner->depth + 1;
  if (depth > kMaxGeneratorChain) throw TemplateFailure("too many filters over one another");
  auto* generator = new Generator(std::move(body));
  generator->depth = depth;
  return Value::object(Kind::native, generator);
}

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names, size_t required)
    : function_(function) {
  if (arguments.positional.size() > names.size()) {
    throw TemplateFailure(
        fmt::format("{}() takes at most {} arguments ({} given)", function, names.size(), arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    for (const char* parameter : names) {
      if (name == parameter) break;
      ++i;
    }
    if (i == names.size()) throw TemplateFailure(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    if (values_[i] != nullptr) throw TemplateFailure(fmt::format("{}() got multiple values for argument '{}'", function, name));
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr)
      throw TemplateFailure(fmt::format("{}() missing required argument: '{}'", function, names.begin()[i]));
  }
}

int64_t Bound::integer(size_t i, int64_t fallback) const { return has(i) ? require_integer(*values_[i]) : fallback; }
const std::string& Bound::text(size_t i) const { return require_text(*values_[i], function_); }

int64_t require_integer(const Value& value) {
  if (value.is_integral()) return value.as_integer();
  if (value.is(Kind::undefined)) throw TemplateFailure(value.as_undefined().explain());
  throw TemplateFailure("'" + type_name(value) + "' object cannot be interpreted as an integer");
}

double require_real(const Value& value) {
  if (value.is_number()) return value.as_real();
  if (value.is(Kind::undefined)) throw TemplateFailure(value.as_undefined().explain());
  throw TemplateFailure("must be real number, not " + type_name(value));
}

const std::string& require_text(const Value& value, std::string_view user) {
  if (value.is(Kind::string)) return value.text();
  throw TemplateFailure(fmt::format("{}() argument must be str, not {}", user, type_name(value)));
}

}  // namespace hone::text::jinja

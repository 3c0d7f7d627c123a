// Native objects of the language: functions, bound methods, namespaces, generators.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

struct Function final : NativeObject {
  using Body = std::function<Value(Interpreter&, Arguments&)>;
  Function(std::string name, Body body) : name(std::move(name)), body(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments& arguments) override { return body(interpreter, arguments); }
  std::string show(Interpreter&) override { return "<function " + name + ">"; }
  std::string name;
  Body body;
};

struct Namespace final : CyclicObject {
  std::string_view type_name() const override { return "Namespace"; }
  Value attribute(Interpreter&, std::string_view name) override;
  Value item(Interpreter&, const Value& key) override;
  std::string show(Interpreter&) override;
  void set(const std::string& name, Value value);
  void clear() override { names.clear(); }
  std::vector<std::pair<std::string, Value>> names;
};

// Produces values on demand, once. `depth` bounds chains of generators over generators.
struct Generator final : NativeObject {
  using Body = std::function<bool(Interpreter&, Value&)>;
  explicit Generator(Body body) : body(std::move(body)) {}
  std::string_view type_name() const override { return "generator"; }
  bool is_iterable() const override { return true; }
  bool next(Interpreter& interpreter, Value& item) override { return body && body(interpreter, item); }
  Body body;
  int depth = 1;
};

Value make_function(std::string name, Function::Body body);
// A generator fed by `source`; rejects chains that are too long.
Value make_generator(const Value& source, Generator::Body body);

// Binds arguments to parameter names as Python does: `names` in order, the first `required` of them are mandatory.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names, size_t required = 0);
  bool has(size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value get(size_t i, Value fallback) const { return has(i) ? *values_[i] : std::move(fallback); }
  bool flag(size_t i, bool fallback = false) const { return has(i) ? truthy(*values_[i]) : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;
  const std::string& text(size_t i) const;
  bool given(size_t i) const { return has(i) && !values_[i]->is(Kind::none); }  // neither absent nor None

 private:
  static constexpr size_t kMost = 8;
  std::string_view function_;
  const Value* values_[kMost] = {};
};

// A Python integer where one is required; throws as Python does for anything else.
int64_t require_integer(const Value& value);
double require_real(const Value& value);
const std::string& require_text(const Value& value, std::string_view user);

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; missing for other names.
Value find_global(std::string_view name);

}  // namespace hone::text::jinja

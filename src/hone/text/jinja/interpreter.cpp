#include "hone/text/jinja/interpreter.h"

#include <algorithm>

#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {
// Leaves room on a thread's stack of 8 MB, also with a sanitizer.
constexpr ptrdiff_t kMaxStackBytes = 3 << 20;
constexpr int kMaxScopeDepth = 500;

thread_local Interpreter* t_active = nullptr;
}  // namespace

Rendered Interpreter::finish() && {
  // A generation block inside a set block or macro has no position in the text: its span must not leave the block.
  for (GenerationSpan& span : generation_spans_) {
    span.begin = std::min(span.begin, root_out_.size());
    span.end = std::min(span.end, root_out_.size());
  }
  return {std::move(root_out_), std::move(generation_spans_)};
}

void charge_comparison(size_t cost) {
  if (t_active != nullptr) t_active->step(cost);
}

Scope::Scope(Scope* parent) : parent(parent), depth(parent == nullptr ? 1 : parent->depth + 1) {
  if (depth > kMaxScopeDepth) throw TemplateFailure("scopes nest too deeply");
  if (parent != nullptr) parent_holder = Value::object(Kind::native, parent);
}

const Value* Scope::find(Symbol symbol) const {
  for (const auto& [name, value] : names)
    if (name == symbol) return &value;
  return nullptr;
}

void Scope::set(Symbol symbol, Value value) {
  for (auto& [name, old] : names) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(symbol, std::move(value));
}

Interpreter::Interpreter(const TemplateLimits& limits, std::vector<Value> root, const std::vector<std::string>& symbol_names,
                         bool strict_undefined)
    : limits_(limits),
      strict_undefined_(strict_undefined),
      steps_left_(limits.steps),
      stack_base_(static_cast<const char*>(__builtin_frame_address(0))),
      root_(std::move(root)),
      symbol_names_(symbol_names),
      outer_(std::exchange(t_active, this)) {}

Interpreter::~Interpreter() {
  t_active = outer_;
  for (Value& object : cyclic_) static_cast<CyclicObject&>(object.as_native()).clear();
}

void Interpreter::out_of_steps() const {
  throw TemplateFailure(fmt::format("the template needs more than {} steps", limits_.steps));
}

void Interpreter::check_size(size_t bytes) const {
  if (bytes > limits_.output_bytes)
    throw TemplateFailure(fmt::format("a text of {} bytes is over the limit of {}", bytes, limits_.output_bytes));
}

void Interpreter::check_stack() const {
  auto here = static_cast<const char*>(__builtin_frame_address(0));
  if (stack_base_ - here > kMaxStackBytes) throw TemplateFailure("the template recurses too deeply");
}

Value Interpreter::lookup(Symbol symbol) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent)
    if (const Value* value = scope->find(symbol)) return *value;
  const Value& value = root_[symbol];
  if (!value.is(Kind::missing)) return value;
  return make_undefined(UndefinedObject::Reason::name, symbol_names_[symbol]);
}

void Interpreter::assign(Symbol symbol, Value value) {
  if (scope_ == nullptr) {
    root_[symbol] = std::move(value);
  } else {
    scope_->set(symbol, std::move(value));
  }
}

void Interpreter::write(std::string_view text) {
  if (out_->size() + text.size() > limits_.output_bytes) {
    throw TemplateFailure(fmt::format("the output is over the limit of {} bytes", limits_.output_bytes));
  }
  charge_bytes(text.size());
  out_->append(text);
}

void Interpreter::write_value(const Value& value) {
  if (value.is(Kind::string)) {
    write(value.text());
  } else {
    write(to_text(value));
  }
}

std::string Interpreter::to_text(const Value& value) {
  if (value.is(Kind::string)) return value.text();
  if (value.is(Kind::undefined)) {
    if (strict_undefined_) throw TemplateFailure(value.as_undefined().explain());
    return "";
  }
  return repr(*this, value);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  step();
  if (callee.is(Kind::undefined)) throw TemplateFailure(callee.as_undefined().explain());
  if (!callee.is(Kind::native) || !callee.as_native().is_callable()) {
    throw TemplateFailure("'" + type_name(callee) + "' object is not callable");
  }
  DepthGuard depth(*this);
  return callee.as_native().call(*this, arguments);
}

std::vector<Value> Interpreter::to_vector(const Value& iterable) {
  std::vector<Value> items;
  Iteration iteration(*this, iterable);
  Value item;
  while (iteration.next(item)) items.push_back(std::move(item));
  return items;
}

int64_t Interpreter::length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return value.as_string().length();
    case Kind::list:
      return static_cast<int64_t>(value.as_list().items.size());
    case Kind::dict:
      return static_cast<int64_t>(value.as_dict().items.size());
    case Kind::native: {
      Value length = value.as_native().type_name() == "LoopContext" ? value.as_native().attribute(*this, "length") : Value();
      if (length.is(Kind::integer)) return length.as_integer();
      break;
    }
    default:
      break;
  }
  throw TemplateFailure("object of type '" + type_name(value) + "' has no len()");
}

bool Interpreter::contains(const Value& container, const Value& item) {
  if (container.is(Kind::string)) {
    if (item.is(Kind::undefined)) throw TemplateFailure("'in <string>' requires string as left operand, not Undefined");
    if (!item.is(Kind::string)) throw TemplateFailure("'in <string>' requires string as left operand, not " + type_name(item));
    step(1 + container.text().size() / 64);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is(Kind::dict)) {
    if (!is_hashable(item)) throw TemplateFailure("unhashable type: '" + type_name(item) + "'");
    return container.as_dict().find(item) != nullptr;
  }
  if (container.is(Kind::list) && container.as_list().flavor == Sequence::keys) hash_of(item);  // rejects what a dict rejects
  Iteration iteration(*this, container);
  Value candidate;
  while (iteration.next(candidate))
    if (equal(candidate, item)) return true;
  return false;
}

Interpreter::ScopeGuard::ScopeGuard(Interpreter& interpreter, Scope* parent)
    : interpreter_(interpreter), saved_(interpreter.scope_), parent_(parent) {
  open();
}

void Interpreter::ScopeGuard::open() {
  auto* scope = new Scope(parent_);
  holder_ = Value::object(Kind::native, scope);
  interpreter_.scope_ = scope;
}

void Interpreter::ScopeGuard::renew() {
  if (interpreter_.scope_->references > 1) {
    open();  // a macro keeps the old names
  } else {
    interpreter_.scope_->names.clear();
  }
}

Interpreter::DepthGuard::DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.depth_ >= interpreter_.limits_.depth) {
    throw TemplateFailure(fmt::format("calls nest deeper than {}", interpreter_.limits_.depth));
  }
  ++interpreter_.depth_;
  interpreter_.check_stack();
}

Iteration::Iteration(Interpreter& interpreter, const Value& iterable) : interpreter_(interpreter), source_(iterable) {
  bool iterable_native = source_.is(Kind::native) && source_.as_native().is_iterable();
  bool iterable_data =
      source_.is(Kind::string) || source_.is(Kind::list) || source_.is(Kind::dict) || source_.is(Kind::undefined);
  if (!iterable_native && !iterable_data) throw TemplateFailure("'" + type_name(source_) + "' object is not iterable");
}

bool Iteration::next(Value& item) {
  interpreter_.step();
  switch (source_.kind()) {
    case Kind::list:
      if (at_ >= source_.as_list().items.size()) return false;
      item = source_.as_list().items[at_++];
      return true;
    case Kind::dict:
      if (at_ >= source_.as_dict().items.size()) return false;
      item = source_.as_dict().items[at_++].first;
      return true;
    case Kind::string: {
      const std::string& text = source_.text();
      if (at_ >= text.size()) return false;
      size_t begin = at_;
      next_code_point(text, at_);
      item = Value::string(text.substr(begin, at_ - begin));
      return true;
    }
    case Kind::native:
      return source_.as_native().next(interpreter_, item);
    default:
      return false;
  }
}

std::optional<int64_t> Iteration::known_length() const {
  if (source_.is(Kind::native)) return std::nullopt;
  return interpreter_.length(source_);
}

}  // namespace hone::text::jinja

#include "hone/text/jinja/loop.h"

#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/syntax/statements.h"

namespace hone::text::jinja {

LoopObject::LoopObject(Interpreter& interpreter, const For& statement, const Value& iterable, int depth, Scope* home)
    : statement_(statement), iteration_(interpreter, iterable), depth_(depth), home_(home) {
  if (home != nullptr) home_holder_ = Value::object(Kind::native, home);
  if (!statement.condition) length_ = iteration_.known_length();
}

bool LoopObject::fetch(Interpreter& interpreter, Value& item) {
  if (buffered_all_) {
    if (buffered_at_ >= buffered_.size()) return false;
    item = buffered_[buffered_at_++];
    return true;
  }
  while (iteration_.next(item)) {
    if (!statement_.condition) return true;
    Interpreter::ScopeGuard scope(interpreter, home_);
    statement_.target.assign(interpreter, item);
    if (truthy(statement_.condition->evaluate(interpreter))) return true;
  }
  return false;
}

bool LoopObject::advance(Interpreter& interpreter, Value& item) {
  if (!after_.is(Kind::missing)) {
    item = std::exchange(after_, Value());
  } else if (!fetch(interpreter, item)) {
    return false;
  }
  ++index0_;
  if (statement_.uses_loop) {
    before_ = std::move(current_);
    current_ = item;
  }
  return true;
}

bool LoopObject::peek(Interpreter& interpreter) {
  if (after_.is(Kind::missing)) {
    Value item;
    if (!fetch(interpreter, item)) return false;
    after_ = std::move(item);
  }
  return true;
}

int64_t LoopObject::length(Interpreter& interpreter) {
  if (!length_) {
    std::vector<Value> rest;
    Value item;
    while (fetch(interpreter, item)) rest.push_back(std::move(item));
    buffered_ = std::move(rest);
    buffered_at_ = 0;
    buffered_all_ = true;
    length_ = static_cast<int64_t>(buffered_.size()) + index0_ + 1 + (after_.is(Kind::missing) ? 0 : 1);
  }
  return *length_;
}

Value LoopObject::call(Interpreter& interpreter, Arguments& arguments) {
  if (!statement_.recursive) throw TemplateFailure("The loop must have the 'recursive' marker to be called recursively.");
  Bound bound("loop", arguments, {"iterable"}, 1);
  Interpreter::CaptureGuard output(interpreter);
  statement_.run(interpreter, bound[0], depth_ + 1, home_);
  return output.take();
}

Value LoopObject::attribute(Interpreter& interpreter, std::string_view name) {
  auto no_item = [](const char* which) {
    return make_undefined(UndefinedObject::Reason::message, std::string("there is no ") + which + " item");
  };
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek(interpreter));
  if (name == "length") return Value::integer(length(interpreter));
  if (name == "revindex") return Value::integer(length(interpreter) - index0_);
  if (name == "revindex0") return Value::integer(length(interpreter) - index0_ - 1);
  if (name == "depth") return Value::integer(depth_ + 1);
  if (name == "depth0") return Value::integer(depth_);
  if (name == "previtem") return index0_ == 0 ? no_item("previous") : before_;
  if (name == "nextitem") return peek(interpreter) ? after_ : no_item("next");
  Value self = Value::object(Kind::native, this);
  if (name == "cycle") {
    return make_function("cycle", [self, this](Interpreter&, Arguments& arguments) {
      if (arguments.positional.empty()) throw TemplateFailure("no items for cycling given");
      return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_function("changed", [self, this](Interpreter& inner, Arguments& arguments) {
      Value now = inner.list(arguments.positional, Sequence::tuple);
      if (!changed_.is(Kind::missing) && equal(changed_, now)) return Value::boolean(false);
      changed_ = std::move(now);
      return Value::boolean(true);
    });
  }
  return Value();
}

}  // namespace hone::text::jinja

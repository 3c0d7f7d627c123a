// The `loop` variable of a for statement.
#pragma once
#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

struct For;

// Looks one item ahead only if needed (loop.last, loop.nextitem), as jinja2 does: generators are consumed once.
class LoopObject final : public NativeObject {
 public:
  LoopObject(Interpreter& interpreter, const For& statement, const Value& iterable, int depth, Scope* home);
  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter&, Arguments&) override;
  Value attribute(Interpreter&, std::string_view name) override;
  bool advance(Interpreter&, Value& item);
  void finish() { before_ = current_ = after_ = changed_ = Value(); }  // drops what may refer back to the loop

 private:
  bool fetch(Interpreter&, Value& item);  // the next item that passes the loop's condition
  bool peek(Interpreter&);
  int64_t length(Interpreter&);

  const For& statement_;
  Iteration iteration_;
  std::vector<Value> buffered_;  // items read early to learn the length
  size_t buffered_at_ = 0;
  bool buffered_all_ = false;
  int depth_;
  Scope* home_;
  Value home_holder_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  Value before_, current_, after_, changed_;
};

}  // namespace hone::text::jinja

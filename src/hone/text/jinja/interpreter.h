// The state of one render: scopes, output, and the budget that bounds a hostile template.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/chat_template.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

using Symbol = uint32_t;

// Objects that can contain a reference to themselves; the interpreter clears them when the render ends.
struct CyclicObject : NativeObject {
  virtual void clear() = 0;
};

// Names set in one block. Macros keep the scope they were defined in.
struct Scope final : CyclicObject {
  explicit Scope(Scope* parent);
  std::string_view type_name() const override { return "scope"; }
  void clear() override { names.clear(); }
  const Value* find(Symbol symbol) const;
  void set(Symbol symbol, Value value);

  Scope* parent;
  Value parent_holder;  // keeps the parent alive when a macro outlives the block
  int depth;
  bool captured = false;  // by a macro
  std::vector<std::pair<Symbol, Value>> names;
};

class Interpreter {
 public:
  Interpreter(const TemplateLimits& limits, std::vector<Value> root, const std::vector<std::string>& symbol_names,
              bool strict_undefined = false);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  // Budget: allocations cost steps too, so that steps bound memory. Each throws TemplateFailure when it is exhausted.
  void step(size_t cost = 1) {
    if (cost > steps_left_) out_of_steps();
    steps_left_ -= cost;
  }
  void charge_bytes(size_t bytes) { step(2 + bytes / 64); }
  void check_size(size_t bytes) const;  // of one string about to be made
  void check_stack() const;

  Value string(std::string text) {
    check_size(text.size());
    charge_bytes(text.size());
    return Value::string(std::move(text));
  }
  Value list(std::vector<Value> items, Sequence flavor = Sequence::list) {
    step(8 + items.size() / 2);
    return make_list(std::move(items), flavor);
  }

  // Scopes.
  Value lookup(Symbol symbol) const;
  void assign(Symbol symbol, Value value);
  Scope* scope() const { return scope_; }

  // Output.
  std::string& out() { return *out_; }
  void write(std::string_view text);
  void write_value(const Value& value);

  // Operations of the language that need the budget.
  Value call(const Value& callee, Arguments& arguments);
  Value get_attribute(const Value& object, std::string_view name);
  Value get_item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  std::vector<Value> to_vector(const Value& iterable);
  int64_t length(const Value& value);
  bool contains(const Value& container, const Value& item);
  std::string to_text(const Value& value);  // Python's str()

  void register_cyclic(CyclicObject* object) { cyclic_.push_back(Value::object(Kind::native, object)); }
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }
  std::vector<GenerationSpan>& generation_spans() { return generation_spans_; }
  size_t root_output_size() const { return root_out_.size(); }
  Rendered finish() &&;

  // A new scope below `parent` (default: the current one) for the duration of a block.
  class ScopeGuard {
   public:
    explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
    ScopeGuard(Interpreter& interpreter, Scope* parent);
    ~ScopeGuard() { interpreter_.scope_ = saved_; }
    ScopeGuard(const ScopeGuard&) = delete;
    void renew();  // forget the names: the next iteration of a loop

   private:
    void open();
    Interpreter& interpreter_;
    Scope* saved_;
    Scope* parent_;
    Value holder_;
  };

  // Redirects output to a string for the duration of a block.
  class CaptureGuard {
   public:
    explicit CaptureGuard(Interpreter& interpreter) : interpreter_(interpreter), saved_(interpreter.out_) {
      interpreter_.out_ = &captured_;
    }
    ~CaptureGuard() { interpreter_.out_ = saved_; }
    CaptureGuard(const CaptureGuard&) = delete;
    Value take() { return interpreter_.string(std::move(captured_)); }

   private:
    Interpreter& interpreter_;
    std::string* saved_;
    std::string captured_;
  };

  class DepthGuard {
   public:
    explicit DepthGuard(Interpreter& interpreter);
    ~DepthGuard() { --interpreter_.depth_; }
    DepthGuard(const DepthGuard&) = delete;

   private:
    Interpreter& interpreter_;
  };

 private:
  [[noreturn]] void out_of_steps() const;

  const TemplateLimits& limits_;
  const bool strict_undefined_;
  size_t steps_left_;
  size_t depth_ = 0;
  const char* stack_base_;
  int line_ = 0;
  std::vector<Value> root_;  // values of the outermost scope, by symbol
  const std::vector<std::string>& symbol_names_;
  Scope* scope_ = nullptr;     // null: the outermost
  std::vector<Value> cyclic_;  // objects that may form cycles; emptied at the end
  std::string root_out_;
  std::string* out_ = &root_out_;
  std::vector<GenerationSpan> generation_spans_;
  Interpreter* outer_;  // the render this thread was busy with before, if any
};

// Iterates over anything that Python can iterate over.
class Iteration {
 public:
  Iteration(Interpreter& interpreter, const Value& iterable);
  bool next(Value& item);
  std::optional<int64_t> known_length() const;

 private:
  Interpreter& interpreter_;
  Value source_;
  size_t at_ = 0;
};

}  // namespace hone::text::jinja

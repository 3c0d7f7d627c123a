#include <ctime>

#include "hone/text/jinja/builtins/natives.h"

namespace hone::text::jinja {

namespace {

constexpr int64_t kMaxRange = 100'000;  // as in jinja2's sandbox

Value make_range(Interpreter& interpreter, Arguments& arguments) {
  if (!arguments.named.empty()) throw TemplateFailure("range() takes no keyword arguments");
  size_t count = arguments.positional.size();
  if (count < 1 || count > 3) throw TemplateFailure("range expected 1 to 3 arguments, got " + std::to_string(count));
  int64_t start = count > 1 ? require_integer(arguments.positional[0]) : 0;
  int64_t stop = require_integer(arguments.positional[count > 1 ? 1 : 0]);
  int64_t step = count > 2 ? require_integer(arguments.positional[2]) : 1;
  if (step == 0) throw TemplateFailure("range() arg 3 must not be zero");
  __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  __int128 length = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (length > kMaxRange)
    throw TemplateFailure(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE={}.", kMaxRange));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(length));
  for (int64_t i = 0; i < static_cast<int64_t>(length); ++i) items.push_back(Value::integer(start + i * step));
  interpreter.step(1 + items.size() / 2);
  auto* list = new ListObject;
  Value result = Value::object(Kind::list, list);
  list->items = std::move(items);
  list->flavor = Sequence::range;
  list->start = start;
  list->stop = stop;
  list->step = step;
  return result;
}

std::vector<std::pair<Value, Value>> dict_pairs(Interpreter& interpreter, Arguments& arguments) {
  std::vector<std::pair<Value, Value>> pairs;
  if (arguments.positional.size() > 1) throw TemplateFailure("dict expected at most 1 argument");
  for (const Value& source : arguments.positional) {
    if (source.is(Kind::dict)) {
      pairs = source.as_dict().items;
      continue;
    }
    for (const Value& entry : interpreter.to_vector(source)) {
      std::vector<Value> pair = interpreter.to_vector(entry);
      if (pair.size() != 2) throw TemplateFailure("dictionary update sequence element has length other than 2");
      pairs.emplace_back(std::move(pair[0]), std::move(pair[1]));
    }
  }
  for (auto& [name, value] : arguments.named) pairs.emplace_back(Value::string(name), value);
  interpreter.step(1 + pairs.size());
  return pairs;
}

Value make_dict_global(Interpreter& interpreter, Arguments& arguments) { return make_dict(dict_pairs(interpreter, arguments)); }

Value make_namespace(Interpreter& interpreter, Arguments& arguments) {
  auto* space = new Namespace;
  Value result = Value::object(Kind::native, space);
  interpreter.register_cyclic(space);
  Value given = make_dict(dict_pairs(interpreter, arguments));
  for (const auto& [name, value] : given.as_dict().items) {
    if (!name.is(Kind::string)) continue;
    if (name.text().starts_with('_')) space->set(name.text(), value);  // rejected there
    space->names.emplace_back(name.text(), value);
  }
  return result;
}

Value raise_exception(Interpreter& interpreter, Arguments& arguments) {
  Bound bound("raise_exception", arguments, {"message"}, 1);
  throw TemplateFailure(interpreter.to_text(bound[0]));
}

Value strftime_now(Interpreter& interpreter, Arguments& arguments) {
  Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.text(0);
  interpreter.charge_bytes(format.size() * 16);
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  if (format.empty()) return Value::string("");
  std::string padded = format + ' ';  // so that an empty result differs from a too small buffer
  std::string out(padded.size() * 16 + 256, '\0');
  size_t written = std::strftime(out.data(), out.size(), padded.c_str(), &local);
  if (written == 0) throw TemplateFailure("strftime_now: the format gives too long a text");
  out.resize(written - 1);
  return interpreter.string(std::move(out));
}

class Cycler final : public CyclicObject {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  void clear() override { items_.clear(); }
  Value attribute(Interpreter&, std::string_view name) override {
    Value self = Value::object(Kind::native, this);
    if (name == "current") return items_.empty() ? Value::none() : items_[at_];
    if (name == "next") {
      return make_function("next", [self, this](Interpreter&, Arguments&) {
        if (items_.empty()) return Value::none();
        Value item = items_[at_];
        at_ = (at_ + 1) % items_.size();
        return item;
      });
    }
    if (name == "reset") {
      return make_function("reset", [self, this](Interpreter&, Arguments&) {
        at_ = 0;
        return Value::none();
      });
    }
    return Value();
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

Value make_cycler(Interpreter& interpreter, Arguments& arguments) {
  if (!arguments.named.empty()) throw TemplateFailure("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) throw TemplateFailure("at least one item has to be provided");
  auto* cycler = new Cycler(std::move(arguments.positional));
  Value result = Value::object(Kind::native, cycler);
  interpreter.register_cyclic(cycler);
  return result;
}

Value make_joiner(Interpreter&, Arguments& arguments) {
  Bound bound("joiner", arguments, {"sep"});
  Value separator = bound.get(0, Value::string(", "));
  return make_function("joiner", [separator, used = false](Interpreter&, Arguments& none) mutable {
    Bound("joiner", none, {});
    return std::exchange(used, true) ? separator : Value::string("");
  });
}

Value make_global(std::string name, Function::Body body) {
  auto* function = new Function(std::move(name), std::move(body));
  function->immortal = true;  // shared by every render; lives as long as the process
  return Value::object(Kind::native, function);
}

}  // namespace

Value find_global(std::string_view name) {
  static const std::vector<std::pair<std::string_view, Value>> kGlobals = {
      {"range", make_global("range", make_range)},
      {"dict", make_global("dict", make_dict_global)},
      {"namespace", make_global("namespace", make_namespace)},
      {"cycler", make_global("cycler", make_cycler)},
      {"joiner", make_global("joiner", make_joiner)},
      {"raise_exception", make_global("raise_exception", raise_exception)},
      {"strftime_now", make_global("strftime_now", strftime_now)},
  };
  for (const auto& [global, value] : kGlobals)
    if (global == name) return value;
  return Value();
}

}  // namespace hone::text::jinja

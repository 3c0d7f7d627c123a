// Values in a template: Python's none, bool, int, float, str, list, tuple, dict and a few native objects. All immutable except
// namespaces.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hone::text::jinja {

// Why a template was rejected, at parsing or rendering. Caught in chat_template.cpp.
class TemplateFailure : public std::runtime_error {
 public:
  explicit TemplateFailure(const std::string& message, int line = 0) : std::runtime_error(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

enum class Kind : uint8_t { missing, none, boolean, integer, real, undefined, string, list, dict, native };

// Reference counts are plain integers: a render is single-threaded. Values shared by several renders (constants of the program)
// are immortal.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  uint32_t references = 0;
  bool immortal = false;
};

struct StringObject;
struct ListObject;
struct DictObject;
struct NativeObject;
struct UndefinedObject;

class Value {
 public:
  Value() : kind_(Kind::missing), integer_(0) {}
  Value(const Value& other) : kind_(other.kind_), integer_(other.integer_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), integer_(other.integer_) { other.kind_ = Kind::missing; }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(integer_, other.integer_);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::none, 0); }
  static Value boolean(bool value) { return Value(Kind::boolean, value); }
  static Value integer(int64_t value) { return Value(Kind::integer, value); }
  static Value real(double value);
  static Value string(std::string text);
  static Value markup(std::string text);
  static Value object(Kind kind, Object* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real; }
  bool is_markup() const;
  bool is_integral() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  bool as_bool() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }
  double as_real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const std::string& text() const;
  const StringObject& as_string() const;
  const ListObject& as_list() const;
  const DictObject& as_dict() const;
  NativeObject& as_native() const;
  const UndefinedObject& as_undefined() const;
  const Object* identity() const { return object_; }

 private:
  Value(Kind kind, int64_t scalar) : kind_(kind), integer_(scalar) {}
  bool owns_object() const { return kind_ >= Kind::undefined; }
  void retain() {
    if (owns_object() && !object_->immortal) ++object_->references;
  }
  void release() {
    if (owns_object() && !object_->immortal && --object_->references == 0) delete object_;
  }

  Kind kind_;
  union {
    int64_t integer_;
    double real_;
    Object* object_;
  };
};

struct StringObject final : Object {
  explicit StringObject(std::string value) : text(std::move(value)) {}
  int64_t length() const;  // in code points, counted once
  bool is_ascii() const { return length() == static_cast<int64_t>(text.size()); }
  std::string text;
  bool markup = false;  // made by `safe` or `escape`: plain text joined to it with + gets escaped

 private:
  mutable int64_t length_ = -1;
};

enum class Sequence : uint8_t { list, tuple, range, keys, values, items };

// A list or anything that Python shows as a finite sequence. `depth` bounds the nesting of containers, and with it every
// recursion over them.
struct ListObject final : Object {
  std::vector<Value> items;
  Sequence flavor = Sequence::list;
  uint32_t depth = 1;
  int64_t start = 0, stop = 0, step = 1;  // of a range
  std::vector<std::string> field_names;   // of a named tuple (groupby's grouper and list)
};

struct DictObject final : Object {
  std::vector<std::pair<Value, Value>> items;
  uint32_t depth = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // only while the dict is being built

 private:
  static constexpr size_t kIndexFrom = 12;  // below it a linear search is faster
  size_t position(const Value& key, size_t hash) const;
  std::unordered_multimap<size_t, uint32_t> index_;
};

struct UndefinedObject final : Object {
  enum class Reason : uint8_t { name, attribute, item, message, unsafe };
  Reason reason = Reason::name;
  std::string detail;  // the name, the attribute, or the whole message
  std::string owner;   // type of the object that lacks it
  std::string explain() const;
};

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// An object with behavior rather than data: a function, macro, bound method, namespace, loop, generator.
struct NativeObject : Object {
  virtual std::string_view type_name() const = 0;
  virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter&, Arguments&) {
    throw TemplateFailure("'" + std::string(type_name()) + "' object is not callable");
  }
  virtual Value attribute(Interpreter&, std::string_view) { return Value(); }  // missing: no such attribute
  virtual Value item(Interpreter&, const Value&) { return Value(); }
  virtual bool is_iterable() const { return false; }
  virtual bool next(Interpreter&, Value&) { return false; }  // for iterables: the following value
  virtual std::string show(Interpreter&) { return "<" + std::string(type_name()) + ">"; }
};

inline const StringObject& Value::as_string() const { return static_cast<const StringObject&>(*object_); }
inline const ListObject& Value::as_list() const { return static_cast<const ListObject&>(*object_); }
inline const DictObject& Value::as_dict() const { return static_cast<const DictObject&>(*object_); }
inline const UndefinedObject& Value::as_undefined() const { return static_cast<const UndefinedObject&>(*object_); }
inline NativeObject& Value::as_native() const { return static_cast<NativeObject&>(*object_); }
inline const std::string& Value::text() const { return as_string().text; }
inline bool Value::is_markup() const { return kind_ == Kind::string && as_string().markup; }

Value make_list(std::vector<Value> items, Sequence flavor = Sequence::list);
Value make_dict(std::vector<std::pair<Value, Value>> items);
Value make_undefined(UndefinedObject::Reason reason, std::string detail, std::string owner = "");

// Comparing and hashing cost steps of the current render on this thread: shared sublists can make them exponential.
void charge_comparison(size_t cost);

bool truthy(const Value& value);
bool equal(const Value& left, const Value& right);
bool is_hashable(const Value& value);
size_t hash_of(const Value& value);
// Python's `left < right`; throws where Python raises.
bool less_than(const Value& left, const Value& right);
std::string type_name(const Value& value);

}  // namespace hone::text::jinja

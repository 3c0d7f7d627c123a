// Reads the JSON objects that describe a tokenizer's components, with errors that name the component.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/json.h"

namespace hone::text::tokenizer {

// Typed access to one component's fields. The first error is kept; later reads return defaults.
class Fields {
 public:
  Fields(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}

  std::string type() { return text("type", ""); }
  bool has(const char* key) const { return object_.is_object() && object_.contains(key) && !object_[key].is_null(); }
  std::string text(const char* key);  // required
  std::string text(const char* key, std::string fallback);
  bool flag(const char* key, bool fallback);
  int64_t number(const char* key, int64_t fallback, int64_t lowest, int64_t highest);
  uint32_t character(const char* key, uint32_t fallback);  // a string of exactly one character
  const Json& list(const char* key);                       // required array
  // {"String": …} or {"Regex": …}
  struct Pattern {
    std::string text;
    bool regex = false;
  };
  Pattern pattern(const char* key);

  void fail(const std::string& why) {
    if (error_.empty()) error_ = name_ + ": " + why;
  }
  const std::string& error() const { return error_; }

 private:
  const Json& object_;
  std::string name_, error_;
};

}  // namespace hone::text::tokenizer

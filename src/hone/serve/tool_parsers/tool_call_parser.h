// Parses one tool call character by character, so that its name and arguments can be streamed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hone/base/json.h"

namespace hone::serve {

// The available functions: name to parameter schema.
using ToolSchemas = std::map<std::string, Json, std::less<>>;

class ToolCallParser {
 public:
  enum class State { open, done, bad };
  virtual ~ToolCallParser() = default;

  // Consumes characters until the call is complete; returns how many. Anything that is not a call sets the state to `bad`.
  size_t push(std::string_view text) {
    size_t used = 0;
    while (used < text.size() && state_ == State::open) step(text[used++]);
    return used;
  }
  virtual void end() {}  // nothing more comes: forms without an end of their own may be complete now

  State state() const { return state_; }
  bool named() const { return !name_.empty(); }
  bool with_arguments() const { return begun_; }  // they have at least begun
  const std::string& name() const { return name_; }
  // Arguments since the last call, as JSON text; held back until the name is known. A finished call without arguments has {}.
  std::string take_arguments() { return named() ? std::exchange(arguments_, {}) : std::string(); }

 protected:
  virtual void step(char c) = 0;
  void fail() { state_ = State::bad; }
  void finish() {
    if (!named()) return fail();
    state_ = State::done;
    if (!begun_) arguments_ = "{}";
  }

  State state_ = State::open;
  std::string name_, arguments_;
  bool begun_ = false;
};

// Tracks the brackets and strings of one value without parsing its content.
class Nesting {
 public:
  explicit Nesting(std::string_view quotes = "\"") : quotes_(quotes) {}

  // True: this character closes the outermost string or bracket.
  bool push(char c) {
    if (quote_) {
      if (std::exchange(escaped_, false)) return false;
      escaped_ = c == '\\';
      if (c != quote_) return false;
      quote_ = 0;
      return depth_ == 0;
    }
    if (quotes_.find(c) != quotes_.npos) quote_ = c;
    if (c == '{' || c == '[' || c == '(') ++depth_;
    if (c == '}' || c == ']' || c == ')') return --depth_ == 0;
    return false;
  }
  bool outside() const { return depth_ == 0 && !quote_; }

 private:
  std::string_view quotes_;
  char quote_ = 0;
  bool escaped_ = false;
  int depth_ = 0;
};

constexpr size_t kLongestCallName = 256;
inline bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace hone::serve

// Reads one tool call, {"name": …, "arguments": {…}}, character by character, so that its arguments can be sent on while they are
// written.
#pragma once
#include <string>
#include <string_view>

namespace hone::serve {

class CallScanner {
 public:
  enum class State { open, done, bad };

  // Takes characters until the object is complete; returns how many. What is no such object makes the state `bad`.
  size_t push(std::string_view text);
  State state() const { return state_; }
  bool named() const { return !name_.empty(); }
  bool with_arguments() const { return begun_; }  // they have at least begun
  const std::string& name() const { return name_; }
  // Arguments that came since the last call, as JSON text; held back until the name is known. A finished call without any has {}.
  std::string take_arguments();

 private:
  enum class Place { begin, key_or_end, key, colon, value, in_value, comma_or_end };
  void step(char c);
  void step_value(char c);
  void begin_value(char c);
  void end_value();
  void end_call();
  void fail() { state_ = State::bad; }

  State state_ = State::open;
  Place place_ = Place::begin;
  std::string key_, value_, name_, arguments_;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, begun_ = false;
};

}  // namespace hone::serve

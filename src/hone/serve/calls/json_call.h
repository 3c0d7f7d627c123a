// A call as an object: {"name": …, "arguments" or "parameters": {…}}.
#pragma once
#include "hone/serve/calls/call_reader.h"

namespace hone::serve {

class JsonCall : public CallReader {
 private:
  enum class Place { begin, key_or_end, key, colon, value, in_value, comma_or_end };
  void step(char c) override;
  void step_key(char c);
  void step_value(char c);
  void begin_value(char c);
  void end_value();

  Place place_ = Place::begin;
  Nesting nesting_;
  std::string key_, value_;
  bool escaped_ = false;
};

}  // namespace hone::serve

// Whether a schema accepts a value: for values that schemas list. Not for use outside of this folder.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "hone/base/json.h"
#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/schema_view.h"

namespace hone::engine {

class SchemaJudge {
 public:
  explicit SchemaJudge(SchemaView& view) : view_(view) {}
  bool accepts(const Json& schema, const Json& value) { return accepts(schema, value, 0); }

 private:
  bool accepts(const Json& schema, const Json& value, int hops);
  bool accepts_by_parts(const Json& schema, const Json& value, int hops);
  bool accepts_string(const Json& schema, const std::string& text);
  bool accepts_object(const Json& schema, const Json& value);
  bool accepts_array(const Json& schema, const Json& value);
  bool matches(const std::string& name, const std::function<Result<Pattern>()>& pattern, const std::string& text);

  SchemaView& view_;
  std::map<std::string, Automaton> automata_;  // of the patterns met so far, by name
};

}  // namespace hone::engine

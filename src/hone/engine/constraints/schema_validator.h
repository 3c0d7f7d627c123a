// Validates listed values (enum, const) against a schema. Internal to this folder.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "hone/base/json.h"
#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/schema_resolver.h"

namespace hone::engine {

class SchemaValidator {
 public:
  explicit SchemaValidator(SchemaResolver& view);
  bool accepts(const Json& schema, const Json& value) {
    ValidatedValue validated{value};
    return accepts(schema, validated, 0);
  }

 private:
  // With its canonical text, computed on first comparison: one value may be compared with ten thousand alternatives.
  struct ValidatedValue {
    const Json& value;
    std::optional<std::string> text = {};
  };
  bool accepts(const Json& schema, ValidatedValue& validated, int hops);
  bool accepts_by_parts(const Json& schema, ValidatedValue& validated, int hops);
  bool is_same(const Json& listed, ValidatedValue& validated);
  std::string spent_canonical(const Json& value);
  bool accepts_string(const Json& schema, const std::string& text);
  bool accepts_object(const Json& schema, const Json& value);
  bool accepts_array(const Json& schema, const Json& value);
  bool matches(const std::string& name, const std::function<Result<Pattern>()>& pattern, const std::string& text);

  SchemaResolver& view_;
  std::shared_ptr<MemoryBudget> memory_;
  std::map<std::string, Automaton> automata_;  // of the patterns met so far, by name
};

}  // namespace hone::engine

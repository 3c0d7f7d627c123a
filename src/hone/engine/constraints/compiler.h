// From a regular expression, a JSON schema or a list of choices to what the sampler may choose. Thread-safe; compile where the
// request is parsed, not in the engine's thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/json.h"
#include "hone/engine/constraints/constraint.h"

namespace hone::engine {

class TokenTrie;

struct ConstraintLimits {
  size_t pattern_bytes = 64 * 1024;
  size_t states = 200'000;  // of the automaton
  int depth = 12;           // nesting of JSON without a schema of its own
};

class ConstraintCompiler {
 public:
  // `end_tokens` are allowed where the text may end. Building the trie of a vocabulary takes a fraction of a second, once.
  ConstraintCompiler(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens, ConstraintLimits limits = {});

  // The whole text matches; Python's syntax without look-around.
  Result<std::shared_ptr<const Constraint>> regex(std::string_view pattern) const;
  // Compact or spaced JSON that the schema accepts.
  Result<std::shared_ptr<const Constraint>> json_schema(const Json& schema) const;
  Result<std::shared_ptr<const Constraint>> json_object() const;  // any JSON object
  Result<std::shared_ptr<const Constraint>> choice(const std::vector<std::string>& texts) const;

 private:
  std::shared_ptr<const TokenTrie> trie_;
  ConstraintLimits limits_;
};

}  // namespace hone::engine

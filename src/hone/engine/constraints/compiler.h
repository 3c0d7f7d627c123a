// Compiles a regular expression, a JSON schema or a list of choices to a constraint of the sampler. Thread-safe; compile where
// the request is parsed, not on the engine's thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/json.h"
#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/constraint.h"

namespace hone::engine {

class ConstraintCache;
class TokenTrie;

struct ConstraintLimits {
  int depth = 12;                      // nesting of JSON without a schema of its own, and of references
  size_t choice_bytes = 1 << 20;       // of all choices together
  AutomatonLimits following = {};      // for one token
  size_t state_bytes = 32 << 20;       // of one constraint: its pattern and its states
  size_t mask_bytes = 8 << 20;         // of one constraint, kept to be used again
  size_t all_bytes = size_t{1} << 30;  // of all constraints that requests use or that are cached
  size_t kept_bytes = 128 << 20;       // of those kept for requests to come
  size_t kept = 256;                   // the same, counted
};

class ConstraintCompiler {
 public:
  // `end_tokens` are allowed where the text may end. Building the trie of a vocabulary takes a fraction of a second, once.
  ConstraintCompiler(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens, ConstraintLimits limits = {});

  // Constrains the full text; Python's syntax without look-around.
  Result<std::shared_ptr<const Constraint>> regex(std::string_view pattern) const;
  // Compact or spaced JSON that the schema accepts.
  Result<std::shared_ptr<const Constraint>> json_schema(const Json& schema) const;
  Result<std::shared_ptr<const Constraint>> json_object() const;  // any JSON object
  Result<std::shared_ptr<const Constraint>> choice(const std::vector<std::string>& texts) const;
  // The same constraint for the same key, compiled with its first mask at the first request.
  Result<std::shared_ptr<const Constraint>> shared(const std::string& key, const std::function<Result<Pattern>()>& pattern) const;

 private:
  std::shared_ptr<const TokenTrie> trie_;
  ConstraintLimits limits_;
  std::shared_ptr<MemoryBudget> memory_;
  std::shared_ptr<ConstraintCache> cache_;
};

}  // namespace hone::engine

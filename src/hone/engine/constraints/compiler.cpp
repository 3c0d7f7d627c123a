#include "hone/engine/constraints/compiler.h"

#include <numeric>

#include "hone/engine/constraints/constraint_cache.h"
#include "hone/engine/constraints/json_schema.h"
#include "hone/engine/constraints/regex_parser.h"
#include "hone/engine/constraints/token_automaton.h"

namespace hone::engine {

using Compiled = Result<std::shared_ptr<const Constraint>>;

ConstraintCompiler::ConstraintCompiler(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens,
                                       ConstraintLimits limits)
    : trie_(std::make_shared<TokenTrie>(tokenizer, std::move(end_tokens))),
      limits_(limits),
      memory_(std::make_shared<MemoryBudget>(limits.all_bytes)),
      cache_(std::make_shared<ConstraintCache>(limits.kept_bytes, limits.kept)) {}

Compiled ConstraintCompiler::shared(const std::string& key, const std::function<Result<Pattern>()>& read) const try {
  if (auto known = cache_->find(key)) return std::shared_ptr<const Constraint>(known);
  auto pattern = read();
  if (!pattern) return Error{pattern.error()};
  auto memory = std::make_shared<MemoryBudget>(limits_.state_bytes, memory_),
       masks = std::make_shared<MemoryBudget>(limits_.mask_bytes, memory_);
  auto automaton = Automaton::make(*pattern, limits_.following, memory);
  if (!automaton) return Error{automaton.error()};
  auto made = std::make_shared<const TokenAutomaton>(trie_, std::move(*automaton), memory, masks);
  made->mask(Constraint::kStart);  // computed here, where nothing else waits for it
  cache_->keep(key, made);
  return std::shared_ptr<const Constraint>(made);
} catch (const ConstraintError& problem) {
  return Error{problem.what()};
}

Compiled ConstraintCompiler::regex(std::string_view pattern) const {
  return shared(fmt::format("regex {}", pattern), [&] { return parse_regex(pattern); });
}

Compiled ConstraintCompiler::json_schema(const Json& schema) const {
  return shared("schema " + schema.dump(-1, ' ', false, Json::error_handler_t::replace),
                [&] { return schema_pattern(schema, limits_.depth); });
}

Compiled ConstraintCompiler::json_object() const { return json_schema(Json{{"type", "object"}}); }

Compiled ConstraintCompiler::choice(const std::vector<std::string>& texts) const {
  auto bytes =
      std::accumulate(texts.begin(), texts.end(), size_t{0}, [](size_t sum, const auto& text) { return sum + text.size(); });
  if (bytes > limits_.choice_bytes)
    return error("the choices have {} bytes together; at most {} are read", bytes, limits_.choice_bytes);
  std::string key = "choice";
  for (const auto& text : texts) key += fmt::format(" {}:{}", text.size(), text);
  return shared(key, [&]() -> Result<Pattern> {
    std::vector<Pattern> parts;
    for (const auto& text : texts) parts.push_back(pattern_text(text));
    return pattern_choice(std::move(parts));
  });
}

}  // namespace hone::engine

#include "hone/engine/constraints/compiler.h"

#include <mutex>
#include <unordered_map>

#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/json_schema.h"
#include "hone/engine/constraints/regex_parser.h"
#include "hone/engine/constraints/token_trie.h"

namespace hone::engine {
namespace {

constexpr size_t kMasksKept = 2048;  // about 19 KB each for a vocabulary of 150,000

class TokenAutomaton : public Constraint {
 public:
  TokenAutomaton(std::shared_ptr<const TokenTrie> trie, Automaton automaton)
      : trie_(std::move(trie)), automaton_(std::move(automaton)) {}

  std::shared_ptr<const Mask> mask(State state) const override {
    std::lock_guard lock(mutex_);
    auto& kept = masks_[state];
    if (kept) return kept;
    auto fresh = std::make_shared<const Mask>(worked_out(state));
    if (masks_.size() > kMasksKept) masks_.clear();
    return masks_[state] = fresh;
  }

  State next(State state, text::TokenId token) const override {
    std::lock_guard lock(mutex_);
    if (static_cast<size_t>(token) >= trie_->vocabulary()) return state;
    for (char byte : trie_->bytes_of(token)) {
      auto after = automaton_.step(state, static_cast<uint8_t>(byte));
      if (after == Automaton::kDead) return state;  // a token that was not allowed: an end, or one forced by something else
      state = after;
    }
    return state;
  }

 private:
  Mask worked_out(State state) const {
    Mask mask{std::vector<uint64_t>((trie_->vocabulary() + 63) / 64)};
    auto allow = [&](text::TokenId token) {
      mask.bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
    };
    if (automaton_.accepts(state))
      for (auto token : trie_->end_tokens()) allow(token);
    visit(0, static_cast<int32_t>(trie_->nodes().size()), state, allow);
    return mask;
  }

  template <class Allow>
  void visit(int32_t begin, int32_t end, State state, const Allow& allow) const {
    for (auto i = begin; i < end; i = trie_->nodes()[static_cast<size_t>(i)].after) {
      const auto& node = trie_->nodes()[static_cast<size_t>(i)];
      auto after = automaton_.step(state, node.byte);
      if (after == Automaton::kDead) continue;
      for (auto t = node.first_token; t < node.last_token; ++t) allow(trie_->tokens()[static_cast<size_t>(t)]);
      visit(i + 1, node.after, after, allow);
    }
  }

  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  mutable Automaton automaton_;
  mutable std::unordered_map<State, std::shared_ptr<const Mask>> masks_;
};

using Compiled = Result<std::shared_ptr<const Constraint>>;

Compiled compiled(const std::shared_ptr<const TokenTrie>& trie, const Result<Pattern>& pattern, const ConstraintLimits& limits) {
  if (!pattern) return Error{pattern.error()};
  auto automaton = Automaton::make(*pattern, limits.states);
  if (!automaton) return Error{automaton.error()};
  return std::shared_ptr<const Constraint>(std::make_shared<TokenAutomaton>(trie, std::move(*automaton)));
}

}  // namespace

ConstraintCompiler::ConstraintCompiler(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens,
                                       ConstraintLimits limits)
    : trie_(std::make_shared<TokenTrie>(tokenizer, std::move(end_tokens))), limits_(limits) {}

Compiled ConstraintCompiler::regex(std::string_view pattern) const {
  if (pattern.size() > limits_.pattern_bytes)
    return error("the regular expression has {} bytes; at most {} are read", pattern.size(), limits_.pattern_bytes);
  return compiled(trie_, parse_regex(pattern), limits_);
}

Compiled ConstraintCompiler::json_schema(const Json& schema) const {
  return compiled(trie_, schema_pattern(schema, limits_.depth), limits_);
}

Compiled ConstraintCompiler::json_object() const {
  return compiled(trie_, schema_pattern(Json{{"type", "object"}}, limits_.depth), limits_);
}

Compiled ConstraintCompiler::choice(const std::vector<std::string>& texts) const {
  std::vector<Pattern> parts;
  for (const auto& text : texts) parts.push_back(pattern_text(text));
  return compiled(trie_, pattern_choice(std::move(parts)), limits_);
}

}  // namespace hone::engine

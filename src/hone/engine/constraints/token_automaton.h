// A byte automaton queried by token: the constraint that requests share.
#pragma once
#include <mutex>
#include <unordered_map>

#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/constraint.h"
#include "hone/engine/constraints/token_trie.h"

namespace hone::engine {

class TokenAutomaton : public Constraint {
 public:
  // `memory` was used for `automaton`; masks use `mask_memory` and are evicted when that is full.
  TokenAutomaton(std::shared_ptr<const TokenTrie> trie, Automaton automaton, std::shared_ptr<MemoryBudget> memory,
                 std::shared_ptr<MemoryBudget> mask_memory)
      : trie_(std::move(trie)),
        automaton_(std::move(automaton)),
        memory_(std::move(memory)),
        mask_memory_(std::move(mask_memory)),
        at_first_(memory_->used()) {}

  std::shared_ptr<const TokenBitmask> mask(State state) const override;
  State next(State state, text::TokenId token) const override;

  size_t bytes() const { return memory_->used() + mask_memory_->used(); }
  // Too many states exist: a new request should start without them.
  bool should_rebuild() const { return memory_->used() - at_first_ > (memory_->limit() - at_first_) / 2; }

 private:
  TokenBitmask compute_mask(State state) const;
  template <class Allow>
  void visit(int32_t begin, int32_t end, State state, const Allow& allow) const;
  void keep(State state, const std::shared_ptr<const TokenBitmask>& mask) const;

  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  mutable Automaton automaton_;
  mutable std::unordered_map<State, std::shared_ptr<const TokenBitmask>> masks_;
  std::shared_ptr<MemoryBudget> memory_, mask_memory_;
  size_t at_first_;  // of memory used, before anybody followed it
};

}  // namespace hone::engine

#include "hone/engine/constraints/token_automaton.h"

namespace hone::engine {

std::shared_ptr<const Constraint::TokenBitmask> TokenAutomaton::mask(State state) const {
  std::lock_guard lock(mutex_);
  if (auto kept = masks_.find(state); kept != masks_.end()) return kept->second;
  automaton_.renew_work();
  auto fresh = std::make_shared<const TokenBitmask>(compute_mask(state));
  keep(state, fresh);
  return fresh;
}

Constraint::State TokenAutomaton::next(State state, text::TokenId token) const {
  std::lock_guard lock(mutex_);
  if (static_cast<size_t>(token) >= trie_->vocabulary()) return state;
  automaton_.renew_work();
  auto before = state;
  for (char byte : trie_->bytes_of(token)) {
    state = automaton_.step(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) return before;  // a token that was not allowed: an end token, or one forced from elsewhere
  }
  return state;
}

Constraint::TokenBitmask TokenAutomaton::compute_mask(State state) const {
  TokenBitmask mask{std::vector<uint64_t>((trie_->vocabulary() + 63) / 64)};
  auto allow = [&](text::TokenId token) {
    if (static_cast<size_t>(token) < trie_->vocabulary())
      mask.bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
  };
  if (automaton_.accepts(state))
    for (auto token : trie_->end_tokens()) allow(token);
  visit(0, static_cast<int32_t>(trie_->nodes().size()), state, allow);
  return mask;
}

template <class Allow>
void TokenAutomaton::visit(int32_t begin, int32_t end, State state, const Allow& allow) const {
  for (auto i = begin; i < end; i = trie_->nodes()[static_cast<size_t>(i)].after) {
    const auto& node = trie_->nodes()[static_cast<size_t>(i)];
    auto after = automaton_.step(state, node.byte);
    if (after == Automaton::kDead) continue;
    for (auto t = node.first_token; t < node.last_token; ++t) allow(trie_->tokens()[static_cast<size_t>(t)]);
    visit(i + 1, node.after, after, allow);
  }
}

void TokenAutomaton::keep(State state, const std::shared_ptr<const TokenBitmask>& mask) const {
  size_t bytes = mask->bits.size() * sizeof(mask->bits[0]) + 128;  // including the overhead of a map
  if (!mask_memory_->take(bytes)) {
    mask_memory_->release(mask_memory_->used());
    masks_.clear();
    if (!mask_memory_->take(bytes)) return;
  }
  masks_.emplace(state, mask);
}

}  // namespace hone::engine

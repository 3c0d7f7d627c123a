#include "hone/engine/constraints/automaton.h"

#include <algorithm>
#include <unordered_set>

namespace hone::engine {
namespace {

using Kind = PatternNode::Kind;

constexpr size_t kHashEntry = 48;     // approximate overhead of an entry in a standard map
constexpr size_t kRepeatedLooks = 8;  // a state may be reached several times before duplicates are merged

size_t mixed(size_t hash, size_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); }

}  // namespace

size_t Automaton::FrameHash::operator()(const Frame& frame) const {
  auto numbers = static_cast<size_t>(static_cast<uint32_t>(frame.at)) << 32 | static_cast<uint32_t>(frame.most);
  return mixed(mixed(std::hash<const void*>()(frame.pattern), numbers), static_cast<size_t>(frame.next));
}

Result<Automaton> Automaton::make(Pattern pattern, const AutomatonLimits& limits, std::shared_ptr<MemoryBudget> memory) try {
  if (pattern->kind == Kind::nothing) return error("nothing can satisfy it");
  Automaton automaton;
  automaton.pattern_ = std::move(pattern);
  automaton.limits_ = limits;
  automaton.memory_ = std::move(memory);
  automaton.renew_work();
  automaton.collect_characters();
  automaton.frames_.push_back({});
  automaton.resumed_.push_back(0);
  ++automaton.step_;
  automaton.enter(*automaton.pattern_, kEnd);
  automaton.reached_state();
  return automaton;
} catch (const ConstraintError& problem) {
  return Error{problem.what()};
}

void Automaton::take(size_t bytes) {
  if (!memory_->take(bytes)) throw ConstraintError("the requested output format needs too much memory; make it narrower");
}

void Automaton::spend(size_t work) {
  if (work > work_left_) throw ConstraintError("the requested output format costs too much to follow; make it narrower");
  work_left_ -= work;
}

void Automaton::collect_characters() {
  take(pattern_bytes(pattern_));
  std::unordered_set<const PatternNode*> seen;
  std::vector<const PatternNode*> open{pattern_.get()};
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->kind == Kind::characters) characters_.emplace(node, bytes_.add(node->ranges));
    for (const auto& part : node->parts) open.push_back(part.get());
  }
  classes_ = bytes_.classes();
  take(bytes_.bytes() + characters_.size() * kHashEntry);
}

int32_t Automaton::frame(const Frame& wanted) {
  if (auto known = frame_ids_.find(wanted); known != frame_ids_.end()) return known->second;
  take(2 * sizeof(Frame) + kHashEntry + sizeof(resumed_[0]));
  auto id = static_cast<int32_t>(frames_.size());
  frames_.push_back(wanted);
  resumed_.push_back(0);
  frame_ids_.emplace(wanted, id);
  return id;
}

int32_t Automaton::after_part(const PatternNode& sequence, size_t part, int32_t next) {
  return part + 1 == sequence.parts.size() ? next : frame({&sequence, static_cast<int32_t>(part + 1), 0, next});
}

int32_t Automaton::after_repetition(const PatternNode& repeat, int32_t least, int32_t most, int32_t next) {
  return most == 1 ? next : frame({&repeat, std::max(least - 1, 0), most < 0 ? -1 : most - 1, next});
}

// All positions from which a text of the pattern, followed by `next`, can be read.
void Automaton::enter(const PatternNode& pattern, int32_t next) {
  begin(pattern, next);
  if (pattern.matches_empty) resume(next);
}

// Those where a non-empty text starts. Handling the empty text elsewhere keeps (a?)* from looping.
void Automaton::begin(const PatternNode& pattern, int32_t next) {
  spend(1);
  switch (pattern.kind) {
    case Kind::nothing:
      return;
    case Kind::characters:
      return reach({characters_.at(&pattern), next});
    case Kind::sequence:
      return begin_parts(pattern, 0, next);
    case Kind::rest:
      return begin_parts(*pattern.parts[0], pattern.from, next);
    case Kind::choice:
      for (const auto& part : pattern.parts) begin(*part, next);
      return;
    case Kind::repeat:
      return begin(*pattern.parts[0], after_repetition(pattern, pattern.min, pattern.max, next));
  }
}

void Automaton::begin_parts(const PatternNode& sequence, size_t from, int32_t next) {
  for (size_t i = from; i < sequence.parts.size(); ++i) {
    begin(*sequence.parts[i], after_part(sequence, i, next));
    if (!sequence.parts[i]->matches_empty) return;
  }
}

void Automaton::resume(int32_t id) {
  if (std::exchange(resumed_[static_cast<size_t>(id)], step_) == step_) return;
  if (id == kEnd) return reach({ByteNodes::kNone, kEnd});
  auto [pattern, at, most, next] = frames_[static_cast<size_t>(id)];  // a copy: frames are added meanwhile
  if (pattern->kind == Kind::repeat) {
    begin(*pattern->parts[0], after_repetition(*pattern, at, most, next));
    if (at == 0) resume(next);
  } else {
    begin_parts(*pattern, static_cast<size_t>(at), next);
    if (static_cast<size_t>(at) >= pattern->from) resume(next);
  }
}

void Automaton::reach(NfaState state) {
  if (reached_.size() >= limits_.nfa_states * kRepeatedLooks)
    throw ConstraintError("the requested output format is too ambiguous to follow; make it narrower");
  reached_.push_back(state);
}

// The state of the reached positions, which are then cleared.
int32_t Automaton::reached_state() {
  std::ranges::sort(reached_);
  auto twice = std::ranges::unique(reached_);
  reached_.erase(twice.begin(), twice.end());
  if (reached_.empty()) return kDead;
  if (reached_.size() > limits_.nfa_states)
    throw ConstraintError(
        fmt::format("the requested output format is too ambiguous to follow: a text leads to more than {} positions in it",
                    limits_.nfa_states));
  size_t hash = 0;
  for (auto [node, frame] : reached_) hash = mixed(mixed(hash, static_cast<size_t>(node)), static_cast<size_t>(frame));
  for (auto [known, end] = known_.equal_range(hash); known != end; ++known)
    if (states_[static_cast<size_t>(known->second)].nfa_states == reached_) return known->second;
  take(sizeof(State) + reached_.size() * sizeof(NfaState) + kHashEntry);
  auto id = static_cast<int32_t>(states_.size());
  states_.push_back({reached_, {}, reached_[0] == NfaState{ByteNodes::kNone, kEnd}});
  known_.emplace(hash, id);
  return id;
}

int32_t Automaton::first_step(int32_t state, uint8_t byte) {
  auto index = static_cast<size_t>(state);
  if (states_[index].next.empty()) {
    size_t width = classes_.back() + size_t{1};
    take(width * sizeof(int32_t));
    states_[index].next.assign(width, kUnknown);
  }
  reached_.clear();
  ++step_;
  spend(states_[index].nfa_states.size());
  for (auto [node, frame] : states_[index].nfa_states)  // no state is added before all are reached
    for (auto [first, last, to] : bytes_.edges(node))
      if (first <= byte && byte <= last) {
        if (to == ByteNodes::kWhole)
          resume(frame);
        else
          reach({to, frame});
      }
  auto next = reached_state();
  states_[index].next[classes_[byte]] = next;
  return next;
}

}  // namespace hone::engine

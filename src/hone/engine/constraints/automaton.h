// A pattern as an automaton over bytes. Only its alphabet is built ahead; NFA and DFA states are built lazily, so that a
// repetition count of two billion costs no more than one of three.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hone/base/error.h"
#include "hone/engine/constraints/byte_nodes.h"
#include "hone/engine/constraints/constraint.h"
#include "hone/engine/constraints/memory_budget.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

struct AutomatonLimits {
  size_t nfa_states = 20'000;  // NFA states of one DFA state
  size_t work = 10'000'000;    // NFA state visits between two calls of renew_work(); some ten milliseconds
};

class Automaton {
 public:
  static constexpr int32_t kDead = -1, kStart = 0;

  static Result<Automaton> make(Pattern pattern, const AutomatonLimits& limits, std::shared_ptr<MemoryBudget> memory);

  // kDead if no text continues that way; throws ConstraintError if a limit or the memory is exhausted.
  int32_t step(int32_t state, uint8_t byte) {
    const auto& next = states_[static_cast<size_t>(state)].next;
    auto known = next.empty() ? kUnknown : next[classes_[byte]];
    return known != kUnknown ? known : first_step(state, byte);
  }
  bool accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepting; }
  void renew_work() { work_left_ = limits_.work; }

 private:
  static constexpr int32_t kUnknown = -2, kEnd = 0;

  // The position after a character: the parts of a sequence from `at` on, or `at` to `most` (-1: unlimited) more repetitions;
  // then `next`. Each is stored once. The first is the end of the text.
  struct Frame {
    const PatternNode* pattern;
    int32_t at, most, next;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame& frame) const;
  };
  // A byte node to read from and the frame after it.
  struct NfaState {
    int32_t node, frame;
    auto operator<=>(const NfaState&) const = default;
  };
  struct State {
    std::vector<NfaState> nfa_states;  // sorted
    std::vector<int32_t> next;         // by class of byte; made with the first step: most states are looked at and left
    bool accepting;
  };

  void collect_characters();
  int32_t first_step(int32_t state, uint8_t byte);
  int32_t frame(const Frame& wanted);
  int32_t after_part(const PatternNode& sequence, size_t part, int32_t next);
  int32_t after_repetition(const PatternNode& repeat, int32_t least, int32_t most, int32_t next);

  void enter(const PatternNode& pattern, int32_t next);
  void begin(const PatternNode& pattern, int32_t next);
  void begin_parts(const PatternNode& sequence, size_t from, int32_t next);
  void resume(int32_t frame);
  void reach(NfaState state);
  int32_t reached_state();

  void take(size_t bytes);
  void spend(size_t work);

  Pattern pattern_;  // owns what frames point to
  AutomatonLimits limits_;
  std::shared_ptr<MemoryBudget> memory_;
  size_t work_left_ = 0;

  ByteNodes bytes_;
  std::unordered_map<const PatternNode*, int32_t> characters_;  // the byte nodes where they begin
  std::array<uint8_t, 256> classes_{};

  std::vector<Frame> frames_;
  std::unordered_map<Frame, int32_t, FrameHash> frame_ids_;
  std::vector<State> states_;
  std::unordered_multimap<size_t, int32_t> known_;  // by hash of NFA states

  std::vector<NfaState> reached_;
  std::vector<uint32_t> resumed_;  // the step in which a frame was last resumed
  uint32_t step_ = 0;
};

}  // namespace hone::engine

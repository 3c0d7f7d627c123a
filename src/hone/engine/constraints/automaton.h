// A pattern as an automaton over bytes, its deterministic states made when first reached.
#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "hone/base/error.h"
#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

// An answer's text has led to more states than are kept for one constraint.
struct TooManyStates : std::exception {
  const char* what() const noexcept override { return "the asked output shape needs too many states"; }
};

class Automaton {
 public:
  static constexpr int32_t kDead = -1, kStart = 0;

  // Neither the pattern nor the texts that follow it may need more than `max_states`.
  static Result<Automaton> make(const Pattern& pattern, size_t max_states);

  int32_t step(int32_t state, uint8_t byte);  // kDead when no text continues that way; throws TooManyStates
  bool accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepting; }

 private:
  static constexpr int32_t kUnknown = -2;
  struct Edge {
    uint8_t first, last;
    int32_t to;
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<int32_t> jumps;  // without reading a byte
  };
  struct State {
    std::vector<int32_t> nodes;                      // sorted; only those with edges, and the end
    std::unique_ptr<std::array<int32_t, 256>> next;  // made with the first step: most states are looked at and left
    bool accepting;
  };
  class Builder;

  int32_t state_of(std::vector<int32_t> nodes);
  void close(std::vector<int32_t>& nodes);

  std::vector<Node> nodes_;
  std::vector<uint32_t> seen_;  // the closing in which a node was last met
  uint32_t closing_ = 0;
  size_t most_states_ = 0;
  int32_t end_ = 0;
  std::vector<State> states_;
  std::map<std::vector<int32_t>, int32_t> known_;
};

}  // namespace hone::engine

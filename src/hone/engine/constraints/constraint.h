// What may follow: an automaton over bytes, asked by token. Immutable for its users; masks are worked out when first needed.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

// No token can be chosen for a request, for what it asked. Ends that request, and no other, with these words.
struct ConstraintError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Constraint {
 public:
  using State = int32_t;
  static constexpr State kStart = 0;

  // A bit per token id; a set bit may be chosen. End tokens are allowed exactly where the text may end.
  struct TokenBitmask {
    std::vector<uint64_t> bits;
    bool allows(text::TokenId token) const {
      auto word = static_cast<size_t>(token) / 64;
      return word < bits.size() && (bits[word] >> (static_cast<size_t>(token) % 64) & 1);
    }
  };

  virtual ~Constraint() = default;
  // Both throw ConstraintError where that would cost more than one request may.
  virtual std::shared_ptr<const TokenBitmask> mask(State state) const = 0;
  virtual State next(State state, text::TokenId token) const = 0;  // of an allowed token
};

}  // namespace hone::engine

// Structured output: which tokens may follow. Immutable for its users; masks are computed lazily.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

// No token can be sampled under a request's constraint. Ends only that request, with this message.
struct ConstraintError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Constraint {
 public:
  using State = int32_t;
  static constexpr State kStart = 0;

  // Token bitmask; a set bit is allowed. End tokens are allowed exactly where the text may end.
  struct TokenBitmask {
    std::vector<uint64_t> bits;
    bool allows(text::TokenId token) const {
      auto word = static_cast<size_t>(token) / 64;
      return word < bits.size() && (bits[word] >> (static_cast<size_t>(token) % 64) & 1);
    }
  };

  virtual ~Constraint() = default;
  // Both throw ConstraintError if the cost exceeds the limits of one request.
  virtual std::shared_ptr<const TokenBitmask> mask(State state) const = 0;
  virtual State next(State state, text::TokenId token) const = 0;  // of an allowed token
};

}  // namespace hone::engine

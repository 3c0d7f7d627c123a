// Why an accepted request failed: the error in its future.
#pragma once
#include <stdexcept>

namespace hone::tinker {

// Caused by the client ("user" in the protocol); all other exceptions are the server's.
struct RequestError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hone::tinker

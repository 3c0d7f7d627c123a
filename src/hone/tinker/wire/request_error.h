// Why a request that was accepted cannot be done: what its future says instead of a result.
#pragma once
#include <stdexcept>

namespace hone::tinker {

// The client's doing ("user" in the protocol); everything else that is thrown is the server's.
struct RequestError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hone::tinker

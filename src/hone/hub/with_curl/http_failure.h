// Why a request failed, whether to retry it, and the retries.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace hone::hub {

// The request failed. Status 0: no response.
class HttpFailure : public std::runtime_error {
 public:
  explicit HttpFailure(const std::string& message) : std::runtime_error(message) {}
  long status = 0;
  bool worth_retrying = false;
  bool unreachable = false;  // no connection could be opened
  std::optional<std::chrono::seconds> retry_after;
  std::string reason;  // the hub's X-Error-Code
  std::string body;    // of the refusal, as far as it was read
};

// "it answers 400 (reason)", with the server's own message if there is one; without a response, why there is none.
std::string describe(const HttpFailure& failure);

// Retries `attempt` on transient failures, with growing pauses or those requested by the server. `progressed` returns whether the
// last attempt made progress, which resets the count.
void with_retries(const std::string& what, const std::function<void()>& attempt, const std::function<bool()>& progressed = {});

}  // namespace hone::hub

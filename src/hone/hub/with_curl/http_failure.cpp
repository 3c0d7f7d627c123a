#include "hone/hub/with_curl/http_failure.h"

#include <algorithm>

#include "hone/base/json.h"
#include "hone/base/log.h"
#include "hone/base/strings/trimmed.h"
#include "hone/base/strings/utf8.h"
#include "hone/hub/with_curl/interrupt.h"

namespace hone::hub {
namespace {

// The message in an error of OpenAI's, vLLM's or FastAPI's form, or a short plain text, on one line.
std::string server_message(const std::string& body) {
  constexpr size_t kLongest = 400;
  std::string message;
  if (const auto json = parse_json(body); json && json->is_object()) {
    const Json& error = json->contains("error") ? (*json)["error"] : *json;
    if (error.is_string()) message = error.get<std::string>();
    for (const char* name : {"message", "detail"})
      if (message.empty() && error.is_object() && error.contains(name))
        message = error[name].is_string() ? error[name].get<std::string>() : error[name].dump();
  } else if (!json && !trimmed(body).starts_with('<')) {
    message = body;
  }
  message = trimmed(message);
  if (message.size() > kLongest) {
    message.resize(character_begin(message, kLongest));
    message += "…";
  }
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return message;
}

}  // namespace

std::string describe(const HttpFailure& failure) {
  if (failure.status == 0) return failure.what();
  const auto message = server_message(failure.body);
  return message.empty() ? fmt::format("it answers {}", failure.status)
                         : fmt::format("it answers {} ({})", failure.status, message);
}

void with_retries(const std::string& what, const std::function<void()>& attempt, const std::function<bool()>& progressed) {
  constexpr int kTries = 6, kTriesToConnect = 2;
  for (int failed = 1;; ++failed) {
    try {
      return attempt();
    } catch (const HttpFailure& failure) {
      if (progressed && progressed()) failed = 1;
      bool last = failed >= (failure.unreachable && !progressed ? kTriesToConnect : kTries);
      if (!failure.worth_retrying || last) throw;
      auto pause = std::chrono::milliseconds(500 << (failed - 1));
      if (failure.retry_after) pause = std::max<std::chrono::milliseconds>(*failure.retry_after, std::chrono::milliseconds(100));
      log::warning("{}: {}; trying again in {:.1f} s", what, failure.what(), static_cast<double>(pause.count()) / 1000);
      wait_for(pause);
    }
  }
}

}  // namespace hone::hub

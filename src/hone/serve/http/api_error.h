// The error response to a request: a status and OpenAI's error object. The texts are a fixed catalogue; they never reveal
// internals of the server (paths, addresses, other requests).
#pragma once
#include <string>

#include "hone/serve/http/message.h"

namespace hone::serve {

// Thrown by handlers, converted to a response in one place. `param` names the offending field, "" if there is none.
struct ApiError : std::exception {
  ApiError(int status, std::string message, std::string param = "", std::string code = "")
      : status(status), message(std::move(message)), param(std::move(param)), code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string message, param, code;
  int retry_after = 0;  // seconds; 0: no header
};

// {"error": {"message", "type", "param", "code"}}
Json problem_json(const ApiError& problem);
HttpResponse problem_response(const ApiError& problem);

HttpResponse too_large_head();
HttpResponse too_large_body(size_t limit);
HttpResponse malformed_request(const std::string& why);
HttpResponse request_timed_out();
HttpResponse no_room_for_body();

}  // namespace hone::serve

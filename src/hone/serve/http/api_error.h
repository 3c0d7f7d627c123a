// The answer to a request that cannot be served: a status and OpenAI's error object. The texts are a fixed catalogue;
// nothing of the server's insides (paths, addresses, other requests) goes into them.
#pragma once
#include <string>

#include "hone/serve/http/message.h"

namespace hone::serve {

// Thrown by handlers, turned into an answer in one place. `param` names the offending field, "" when there is none.
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

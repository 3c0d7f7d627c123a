#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "service_unavailable_error";
    default:
      return "invalid_request_error";
  }
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json problem_json(const ApiError& problem) {
  return {{"error",
           {{"message", problem.message},
            {"type", type_of(problem.status)},
            {"param", or_null(problem.param)},
            {"code", or_null(problem.code)}}}};
}

HttpResponse problem_response(const ApiError& problem) {
  auto response = json_response(problem_json(problem), problem.status);
  if (problem.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(problem.retry_after));
  return response;
}

HttpResponse too_large_head() { return problem_response({431, "the request's header is too large", "", "header_too_large"}); }

HttpResponse too_large_body(size_t limit) {
  return problem_response({413, fmt::format("the request's body is larger than {} bytes", limit), "", "body_too_large"});
}

HttpResponse malformed_request(const std::string& why) {
  return problem_response({400, "not an HTTP request: " + why, "", "bad_http"});
}

HttpResponse request_timed_out() { return problem_response({408, "the request did not arrive in time", "", "timeout"}); }

HttpResponse no_room_for_body() {
  ApiError problem(429, "the server's limit of request bytes is reached; try again", "", "overloaded");
  problem.retry_after = 1;
  return problem_response(problem);
}

}  // namespace hone::serve

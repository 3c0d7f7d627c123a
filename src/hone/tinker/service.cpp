#include "hone/tinker/service.h"

#include "hone/base/log.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"

namespace hone::tinker {

using serve::HttpRequest;
using serve::HttpResponse;

TinkerService::TinkerService(const serve::ServerConfig& http, const Keys& keys, const char* name)
    : HttpService(http, ""), keys_(keys), name_(name) {}

HttpResponse TinkerService::error_response(const serve::ApiError& problem, const HttpRequest& request) const {
  return request.path.starts_with("/v1/messages") ? serve::anthropic_problem(problem) : serve::problem_response(problem);
}

bool TinkerService::is_authorized(const HttpRequest& head) const {
  const auto found = find_route(head.method, head.path);
  return (found.route && found.route->is_open) || keys_.tenant_of(key_of(head));
}

std::optional<HttpResponse> TinkerService::refuse(const HttpRequest& head) {
  if (auto refusal = refuse_access(head)) return refusal;
  if (!find_route(head.method, head.path).route && !OpenAiApi::find_route(head.method, head.path))
    return error_response(
        {404, fmt::format("{} is not supported by this server", serve::request_line(head)), "", "not_supported"}, head);
  if (is_draining()) return error_response({503, fmt::format("the {} is ending", name_), "", "draining"}, head);
  return std::nullopt;
}

void TinkerService::on_response(const serve::Exchange& exchange, double seconds) {
  if (config().log_requests)
    log::info("{} {} {:.0f} ms", serve::request_line(exchange.request()), exchange.status(), seconds * 1e3);
}

}  // namespace hone::tinker

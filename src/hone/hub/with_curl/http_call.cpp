#include "hone/hub/http_call.h"

#include "hone/hub/with_curl/http.h"

namespace hone::hub {

HttpResponse http_call(const HttpCall& call) {
  HttpRequest request{.url = call.address,
                      .headers = {"Content-Type: " + call.content_type},
                      .secrets = {},
                      .read_timeout = call.timeout,
                      .method = call.method,
                      .body = call.body,
                      .total_timeout = call.total_timeout,
                      .direct = true,
                      .is_cancelled = call.is_cancelled,
                      .is_complete = call.is_complete};
  request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
  if (!call.bearer_token.empty()) request.secrets.push_back("Authorization: Bearer " + call.bearer_token);
  try {
    auto reply = Http().get(request, call.longest);
    return {reply.status, std::move(reply.body), "", std::move(reply.headers)};
  } catch (const HttpFailure& failure) {
    return {failure.status, failure.body, describe(failure)};
  }
}

}  // namespace hone::hub

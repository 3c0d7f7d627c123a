#include "hone/hub/http_call.h"

#include <fmt/format.h>

#include "hone/hub/with_curl/http.h"

namespace hone::hub {

HttpAnswer http_call(const HttpCall& call) {
  constexpr size_t kLongest = size_t{256} << 20;
  HttpRequest request{.url = call.address,
                      .headers = {"Content-Type: " + call.content_type},
                      .secrets = {},
                      .read_timeout = call.timeout,
                      .method = call.method,
                      .body = call.body,
                      .direct = true,
                      .give_up = call.is_cancelled};
  if (!call.bearer_token.empty()) request.secrets.push_back("Authorization: Bearer " + call.bearer_token);
  try {
    auto reply = Http().get(request, kLongest);
    return {reply.status, std::move(reply.body), ""};
  } catch (const HttpFailure& failure) {
    return {failure.status, failure.body,
            failure.status ? fmt::format("it answers {}", failure.status) : std::string(failure.what())};
  }
}

}  // namespace hone::hub

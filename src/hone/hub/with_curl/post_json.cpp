#include "hone/hub/post_json.h"

#include <fmt/format.h>

#include "hone/hub/with_curl/http.h"

namespace hone::hub {

std::string post_json(const std::string& address, const std::string& body, std::chrono::seconds patience) {
  constexpr size_t kLongest = size_t{64} << 20;
  HttpRequest request{.url = address, .headers = {"Content-Type: application/json"}, .secrets = {}, .patience = patience, .method = "POST", .body = body, .whole_time = patience};
  try {
    return Http().get(request, kLongest).body;
  } catch (const HttpFailure& failure) {
    throw std::runtime_error(failure.status ? fmt::format("it answers {}", failure.status) : std::string(failure.what()));
  }
}

}  // namespace hone::hub

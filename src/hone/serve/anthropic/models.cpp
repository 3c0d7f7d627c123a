#include "hone/serve/anthropic/models.h"

#include <ctime>

namespace hone::serve {
namespace {

std::string rfc3339(int64_t unix_seconds) {
  auto moment = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&moment, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace

bool asks_as_anthropic(const HttpRequest& request) { return !request.header("anthropic-version").empty(); }

Json anthropic_model(const Json& model) {
  return {{"type", "model"},
          {"id", model["id"]},
          {"display_name", model["id"]},
          {"created_at", rfc3339(model["created"].get<int64_t>())},
          {"lifecycle", "active"},
          {"max_input_tokens", model["max_model_len"]},
          {"max_tokens", model["max_model_len"]}};
}

Json anthropic_models(const Json& list) {
  Json models = Json::array();
  for (const auto& model : list) models.push_back(anthropic_model(model));
  return {{"data", models}, {"has_more", false}, {"first_id", list.front()["id"]}, {"last_id", list.back()["id"]}};
}

}  // namespace hone::serve

#include "hone/tinker/api/call.h"

#include <charconv>

#include "hone/base/strings/percent.h"
#include "hone/serve/http/head.h"
#include "hone/tinker/wire/json_dialect.h"

namespace hone::tinker {
namespace {

constexpr double kArchiveSeconds = 900;

serve::HttpResponse response_of(const Outcome& outcome, const Call& call, Json (*to_json)(std::string_view)) {
  const bool accepts_protobuf = call.request.header("accept").find("protobuf") != std::string_view::npos;
  if (!accepts_protobuf && outcome.content_type == kProtobuf) return serve::json_response(to_json(outcome.body));
  return {.status = 200, .body = outcome.body, .content_type = outcome.content_type};
}

serve::ApiError gone(const std::string& id) {
  return {410, fmt::format("the result of {} is not kept any more; send the request again", id), "", "gone"};
}

}  // namespace

std::string Archives::add(const std::string& folder) {
  const double now = unix_seconds();
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& each) { return each.second.expires < now; });
  const auto token = serve::fresh_id("");
  entries_[token] = {folder, now + kArchiveSeconds};
  return token;
}

std::optional<std::string> Archives::folder_of(const std::string& token) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(token);
  if (found == entries_.end() || found->second.expires < unix_seconds()) return std::nullopt;
  return found->second.folder;
}

Json body_of(const Call& call) {
  if (call.request.body.empty()) return Json::object();
  auto parsed = parse_json(call.request.body);
  if (!parsed) throw serve::ApiError(400, "the body is not JSON: " + parsed.error());
  if (!parsed->is_object()) throw serve::ApiError(400, "the body is not a JSON object");
  return std::move(*parsed);
}

std::string query_value(const Call& call, std::string_view name) {
  std::string_view rest = call.request.query;
  while (!rest.empty()) {
    const auto pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == pair.npos || pair.substr(0, equals) != name) continue;
    return percent_decoded(pair.substr(equals + 1)).value_or("");
  }
  return "";
}

Page page_of(const Call& call, int64_t limit) {
  constexpr int64_t kLongest = 1000;
  auto number = [&](const char* name, int64_t otherwise, int64_t high) {
    const auto text = query_value(call, name);
    if (text.empty()) return otherwise;
    int64_t value = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || value < 0)
      throw serve::ApiError(400, fmt::format("{} is not a whole number from 0 on", name), name);
    return std::min(value, high);
  };
  return {number("limit", limit, kLongest), number("offset", 0, std::numeric_limits<int64_t>::max())};
}

serve::HttpResponse no_content() { return serve::json_response(Json::object()); }
serve::ApiError not_found(const std::string& what) { return {404, "there is no " + what, "", "not_found"}; }

std::optional<serve::HttpResponse> result_of(Services& services, const Call& call, const std::string& id) {
  if (id.find(":sample:") != id.npos) {
    auto sample = services.futures.sample(id, call.tenant);
    if (!sample) throw gone(id);
    return sample->done ? std::optional(response_of(sample->outcome, call, sample_response_to_json)) : std::nullopt;
  }
  const auto colon = id.rfind(':');
  int64_t seq = 0;
  const auto digits = colon == id.npos ? std::string() : id.substr(colon + 1);
  auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), seq);
  if (digits.empty() || status != std::errc() || end != digits.data() + digits.size()) throw not_found("future " + id);
  auto request = services.store.result(id.substr(0, colon), call.tenant, seq);
  if (!request) throw not_found("future " + id);
  if (!request->done) return std::nullopt;
  if (request->result.empty()) throw gone(id);
  return response_of({request->failed, request->result, request->content_type}, call, forward_backward_output_to_json);
}

}  // namespace hone::tinker

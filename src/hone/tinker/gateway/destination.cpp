#include "hone/tinker/gateway/destination.h"

#include "hone/tinker/api/openai.h"
#include "hone/tinker/api/routes.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/forward_backward.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

using Kind = Destination::Kind;

// The model to sample from: a sampler, a checkpoint, or the base model.
Destination sampled_from(const Json& body) {
  if (auto sampler = text_field(body, "sampling_session_id", ""); !sampler.empty()) return {Kind::sampler, sampler};
  if (auto path = text_field(body, "model_path", ""); !path.empty()) return {Kind::checkpoint, tinker_path(path)};
  return {Kind::model, text_field(body, "base_model", "")};
}

// As OpenAI's clients name it.
Destination named_model(const std::string& model) {
  if (const auto path = tinker_path(model); path.starts_with("tinker://")) return {Kind::checkpoint, path};
  if (model.find(":sample:") != model.npos) return {Kind::sampler, model};
  return {Kind::model, model};
}

Destination of_openai(const Call& call) {
  constexpr std::string_view kOneModel = "/v1/models/";
  if (call.request.path.starts_with(kOneModel)) return named_model(call.request.path.substr(kOneModel.size()));
  if (call.request.method == "GET") return {};
  return named_model(text_field(body_of(call), "model", ""));
}

Destination of_data(const Call& call) {
  const bool is_protobuf = call.request.header("content-type").find("protobuf") != std::string_view::npos;
  return {Kind::run, is_protobuf ? read_address(call.request.body).model_id : required_text(body_of(call), "model_id")};
}

Destination destination_by(std::string_view path, const Call& call) {
  const auto run_in_path = [&] { return Destination{Kind::run, call.parts.at(0)}; };
  if (path == "/api/v1/client/config" || path == "/api/v1/client/dynamic_config") return {};
  if (path == "/api/v1/forward_backward") return of_data(call);
  if (path == "/api/v1/create_model") return {Kind::model, required_text(body_of(call), "base_model")};
  if (path == "/api/v1/load_weights" && begins_in_session(path, call))
    return {Kind::checkpoint, tinker_path(required_text(body_of(call), "path"))};
  if (path == "/api/v1/create_sampling_session" || path == "/api/v1/asample") return sampled_from(body_of(call));
  if (path == "/api/v1/samplers/{}") return {Kind::sampler, call.parts.at(0)};
  if (path == kTwinkleModel || path == kTwinkleSampler) return {Kind::model, call.parts.at(0)};
  if (path == kTwinkleProcessor) return {Kind::model, ""};  // the only one: its template encodes the rows
  if (path.ends_with("/weights_info")) {
    const auto body = body_of(call);
    return {Kind::checkpoint, tinker_path(required_text(body, has_field(body, "twinkle_path") ? "twinkle_path" : "tinker_path"))};
  }
  // A published checkpoint is another tenant's run, of which a client may learn nothing else.
  if (path.ends_with("/archive") || path.find("/checkpoint_path/") != path.npos)
    return {Kind::checkpoint, fmt::format("tinker://{}/{}/{}", call.parts.at(0), call.parts.at(1), call.parts.at(2))};
  if (path.find("/training_runs/{}") != path.npos) return run_in_path();
  return {Kind::run, required_text(body_of(call), "model_id")};
}

}  // namespace

bool begins_in_session(std::string_view path, const Call& call) {
  if (path == "/api/v1/load_weights") return has_field(body_of(call), "session_id");
  return path == "/api/v1/create_model" || path == "/api/v1/create_sampling_session";
}

Destination destination_of(const Call& call) try {
  const auto found = find_route(call.request.method, call.request.path);
  return found.route ? destination_by(found.route->path, call) : of_openai(call);
} catch (const RequestError& problem) {
  throw serve::ApiError(400, problem.what(), "", "invalid_request");
}

Destination destination_of_future(const std::string& id) {
  if (id.starts_with(kDirectSample)) return {};
  const auto run = id.substr(0, id.rfind(':'));
  return {run.find(":sample:") != run.npos ? Kind::sampler : Kind::run, run};
}

}  // namespace hone::tinker

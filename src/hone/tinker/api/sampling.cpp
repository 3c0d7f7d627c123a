// Sampling: sessions on the base model, a checkpoint or unnamed weights, and their requests.
#include "hone/serve/http/head.h"
#include "hone/tinker/api/call.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// The folder of a checkpoint's adapter; "" is the base model.
std::string folder_of(Services& services, const Call& call, const std::string& model_path, const std::string& base_model) {
  if (!base_model.empty() && base_model != services.config.base_model)
    throw serve::ApiError(
        400, fmt::format("base_model is \"{}\"; this server has \"{}\"", base_model, services.config.base_model), "base_model");
  if (model_path.empty()) return "";
  auto checkpoint = services.store.checkpoint(model_path, call.tenant);
  if (!checkpoint) throw not_found("checkpoint " + model_path);
  return checkpoint->folder;
}

SamplerRow sampler_named(Services& services, const Call& call, const std::string& id) {
  auto sampler = services.store.sampler(id, call.tenant);
  if (!sampler) throw not_found("sampler " + id);
  return *sampler;
}

std::string folder_of(Services& services, const Call& call, const SampleRequest& request) {
  if (request.sampler_id.empty()) return folder_of(services, call, request.model_path, request.base_model);
  const auto sampler = sampler_named(services, call, request.sampler_id);
  return sampler.folder.empty() ? folder_of(services, call, sampler.model_path, "") : sampler.folder;
}

}  // namespace

std::optional<std::string> saved_adapter(Services& services, const std::string& tenant, const std::string& name) {
  const auto sampler = services.store.sampler(name, tenant);
  if (sampler && !sampler->folder.empty()) return sampler->folder;
  const auto checkpoint = services.store.checkpoint(sampler ? sampler->model_path : name, tenant);
  return checkpoint ? std::optional(checkpoint->folder) : std::nullopt;
}

serve::HttpResponse create_sampling_session(Services& services, const Call& call) {
  const auto body = body_of(call);
  const auto session = services.store.session(required_text(body, "session_id"), call.tenant);
  if (!session) throw not_found("session of this id");
  const auto path = text_field(body, "model_path", "");
  folder_of(services, call, path, text_field(body, "base_model", ""));
  SamplerRow sampler{.id = fmt::format("{}:sample:{}", session->id, required_integer(body, "sampling_session_seq_id", 0)),
                     .session = session->id,
                     .owner = call.tenant,
                     .model_path = path,
                     .folder = {}};
  const auto known = services.store.add_sampler(sampler) ? std::nullopt : services.store.sampler(sampler.id, call.tenant);
  if (known && (known->model_path != path || !known->folder.empty()))  // a retry names the same model
    throw serve::ApiError(422, "sampling_session_seq_id names another sampler of this session already",
                          "sampling_session_seq_id");
  return serve::json_response({{"type", "create_sampling_session"}, {"sampling_session_id", sampler.id}});
}

serve::HttpResponse get_sampler(Services& services, const Call& call) {
  const auto sampler = sampler_named(services, call, call.parts.at(0));
  Json result = {{"sampler_id", sampler.id}, {"base_model", services.config.base_model}};
  if (!sampler.model_path.empty()) result["model_path"] = sampler.model_path;
  return serve::json_response(result);
}

void queue_sample(Services& services, const std::string& tenant, size_t most, SampleJob job) {
  if (services.futures.sample(job.id, tenant)) {
    services.futures.note_poll(job.id, tenant);
    return;
  }
  const auto& request = job.request;
  const auto tokens = static_cast<int64_t>(request.prompt.size()) +
                      request.num_samples * std::min(request.sampling.max_tokens, services.config.max_length);
  services.rate.spend(tenant, tokens);
  const auto fresh = services.futures.add_sample(job.id, tenant, most);
  if (!fresh.value_or(false)) services.rate.refund(tenant, tokens);
  if (!fresh) {
    serve::ApiError full(429, "the queue of sampling requests is full; try again", "", "too_many_requests");
    full.retry_after = 1;
    throw full;
  }
  if (!*fresh) return;
  const auto id = job.id;
  services.loop.sample(std::move(job));
  const auto known = services.futures.sample(id, tenant);
  if (!known || known->done) services.loop.cancel_sample(id);  // it was cancelled before it was queued
}

void cancel_sample(Services& services, const std::string& tenant, const std::string& id) {
  if (services.futures.cancel_sample(id, tenant)) services.loop.cancel_sample(id);
}

// One that is done or unknown is not an error: the client need not know which came first.
serve::HttpResponse cancel_future(Services& services, const Call& call) {
  const auto id = required_text(body_of(call), "request_id");
  if (id.find(":sample:") == id.npos)
    throw serve::ApiError(400, fmt::format("{} is not a sample: training requests are not cancelled", id), "request_id");
  cancel_sample(services, call.tenant, id);
  return no_content();
}

serve::HttpResponse asample(Services& services, const Call& call) {
  auto request = read_sample_request(body_of(call));
  const auto folder = folder_of(services, call, request);
  const auto id = request.sampler_id.empty() ? serve::fresh_id(kDirectSample) : future_id(request.sampler_id, request.seq_id);
  Json sequences = Json::array();
  for (int64_t i = 0; i < request.num_samples; ++i) sequences.push_back(fmt::format("{}:{}", id, i));
  const auto own = services.limits.of(call.tenant).max_pending;
  queue_sample(services, call.tenant, own > 0 ? static_cast<size_t>(own) : services.config.max_samples,
               {.id = id, .request = std::move(request), .folder = folder});
  return serve::json_response({{"request_id", id}, {"sample_sequence_ids", sequences}});
}

}  // namespace hone::tinker

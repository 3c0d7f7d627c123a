// Training: requests are stored here in the order of their sequence numbers and executed by the model's thread.
#include <random>

#include "hone/tinker/api/call.h"
#include "hone/tinker/wire/json_dialect.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

Run run_named(Services& services, const Call& call, const std::string& id) {
  auto run = services.store.run(id, call.tenant);
  if (!run) throw not_found("model " + id);
  return *run;
}

serve::HttpResponse accepted(const std::string& run, int64_t seq) {
  return serve::json_response({{"request_id", future_id(run, seq)}, {"model_id", run}});
}

serve::HttpResponse submit(Services& services, const Call& call, const std::string& model_id, StoredRequest request,
                           int64_t tokens = 0) {
  const auto run = run_named(services, call, model_id);
  if (call.announcement) call.announcement->name_run(run.id);
  if (run.unloaded) throw serve::ApiError(400, "this model was unloaded", "model_id");
  if (request.seq < 1) throw serve::ApiError(400, fmt::format("seq_id is {}; the first is 1", request.seq), "seq_id");
  if (!services.store.request(run.id, request.seq)) require_room(services, call.tenant, tokens);  // not for a retry
  const auto seq = request.seq;
  const auto added = services.store.add_request(run.id, std::move(request));
  if (added == Store::Added::differs)
    throw serve::ApiError(422, fmt::format("request {} of this model was sent before with different content", seq), "seq_id");
  if (added == Store::Added::fresh) services.loop.submit(run.id, seq);
  return accepted(run.id, seq);
}

serve::HttpResponse submit_json(Services& services, const Call& call, const char* kind) {
  const auto body = body_of(call);
  return submit(
      services, call, required_text(body, "model_id"),
      {.seq = required_integer(body, "seq_id", 1), .kind = kind, .body = call.request.body, .result = {}, .content_type = {}});
}

serve::HttpResponse submit_data(Services& services, const Call& call, std::string bytes) {
  const auto address = read_address(bytes);
  return submit(services, call, address.model_id,
                {.seq = address.seq_id,
                 .kind = address.forward_only ? "forward" : "forward_backward",
                 .body = std::move(bytes),
                 .result = {},
                 .content_type = {}},
                address.tokens);
}

int64_t max_rank_of(Services& services, const Call& call) {
  const auto own = services.limits.of(call.tenant).max_rank;
  return own > 0 ? std::min(own, services.config.max_rank) : services.config.max_rank;
}

RunConfig run_config(Services& services, const Call& call, const Json& body) {
  RunConfig config;
  const auto max_rank = max_rank_of(services, call);
  const auto lora = body.value("lora_config", Json::object());
  config.rank = integer_field(lora, "rank", std::min(config.rank, max_rank), 1, max_rank);
  config.seed = has_field(lora, "seed") ? static_cast<uint64_t>(integer_field(lora, "seed", 0)) : std::random_device()();
  config.train_attn = flag_field(lora, "train_attn", true);
  config.train_mlp = flag_field(lora, "train_mlp", true);
  config.train_unembed = flag_field(lora, "train_unembed", true);
  if (!config.train_attn && !config.train_mlp && !config.train_unembed)
    throw RequestError("train_attn, train_mlp and train_unembed are all false: nothing would train");
  return config;
}

void require_base(Services& services, const std::string& base_model) {
  if (base_model != services.config.base_model)
    throw serve::ApiError(
        400, fmt::format("base_model is \"{}\"; this server has \"{}\"", base_model, services.config.base_model), "base_model");
}

void require_adam(const Json& body) {
  if (!has_field(body, "optimizer_config")) return;
  if (auto type = text_field(body["optimizer_config"], "type", "adamw"); type != "adamw")
    throw RequestError(fmt::format("the optimizer \"{}\" is not supported by this server; expected adamw", type));
}

Session open_session(Services& services, const Call& call, const Json& body) {
  auto session = services.store.session(required_text(body, "session_id"), call.tenant);
  if (!session) throw not_found("session of this id");
  if (session->finished) throw serve::ApiError(400, "the session has finished", "session_id");
  return *session;
}

Run run_in(const Session& session, const Json& body, RunConfig config) {
  return {.id = fmt::format("{}:train:{}", session.id, required_integer(body, "model_seq_id", 0)),
          .session = session.id,
          .owner = session.owner,
          .config = config,
          .user_metadata = body.value("user_metadata", Json()),
          .snapshot = {}};
}

// The run has the LoRA settings of the checkpoint. Loading is its request 0, before which none is executed.
serve::HttpResponse create_by_load(Services& services, const Call& call, const Json& body) {
  const auto session = open_session(services, call, body);
  if (has_field(body, "base_model")) require_base(services, required_text(body, "base_model"));
  require_adam(body);
  if (has_field(body, "weights_access_token"))
    throw serve::ApiError(400, "weights_access_token is not supported by this server", "weights_access_token");
  const auto path = required_text(body, "path");
  const auto checkpoint = services.store.checkpoint(path, call.tenant);
  const StoredRequest load{.seq = 0, .kind = "load_weights", .body = call.request.body, .result = {}, .content_type = {}};
  auto run = run_in(session, body, checkpoint ? checkpoint->config : RunConfig());
  run.executed = run.snapshot_seq = -1;
  bool fresh = false;
  if (!services.store.run(run.id, call.tenant)) {
    if (!checkpoint) throw not_found("checkpoint " + path);
    if (const auto max_rank = max_rank_of(services, call); run.config.rank > max_rank)
      throw RequestError(fmt::format("the checkpoint has rank {}; expected at most {}", run.config.rank, max_rank));
    require_room(services, call.tenant, 0);
    fresh = services.store.add_run(run, load);
  }
  if (fresh)
    services.loop.submit(run.id, load.seq);
  else if (services.store.add_request(run.id, load) == Store::Added::differs)
    throw serve::ApiError(422, "model_seq_id names another model of this session already", "model_seq_id");
  return accepted(run.id, load.seq);
}

}  // namespace

void require_room(Services& services, const std::string& tenant, int64_t tokens) {
  const auto& own = services.limits.of(tenant);
  const auto most = own.max_pending > 0 ? own.max_pending : services.config.max_pending,
             most_bytes = own.pending_bytes > 0 ? own.pending_bytes : services.config.max_pending_bytes;
  const auto pending = services.store.pending(tenant);
  if (pending.requests >= most || pending.bytes >= most_bytes) {
    serve::ApiError full(
        429,
        fmt::format("{} training requests with {} bytes are pending; this tenant may have {} with {} bytes: wait "
                    "for their results, then send this request again",
                    pending.requests, pending.bytes, most, most_bytes),
        "", "too_many_requests");
    full.retry_after = 1;
    throw full;
  }
  if (tokens > 0) services.rate.spend(tenant, tokens);  // at the limit, saving is still allowed
}

serve::HttpResponse create_model(Services& services, const Call& call) {
  const auto body = body_of(call);
  const auto session = open_session(services, call, body);
  require_base(services, required_text(body, "base_model"));
  require_adam(body);
  const auto run = run_in(session, body, run_config(services, call, body));
  const Json result = {{"model_id", run.id}, {"type", "create_model"}};
  services.store.add_run(
      run,
      {.seq = 0, .kind = "create_model", .body = {}, .done = true, .result = result.dump(), .content_type = "application/json"});
  return accepted(run.id, 0);
}

serve::HttpResponse get_info(Services& services, const Call& call) {
  const auto run = run_named(services, call, required_text(body_of(call), "model_id"));
  const auto& config = services.config;
  return serve::json_response(
      {{"type", "get_info"},
       {"model_data", {{"arch", "causal_lm"}, {"model_name", config.base_model}, {"tokenizer_id", config.base_model}}},
       {"model_id", run.id},
       {"is_lora", true},
       {"lora_rank", run.config.rank},
       {"model_name", config.base_model}});
}

serve::HttpResponse unload_model(Services& services, const Call& call) {
  constexpr int64_t kSeq = -1;
  const auto run = run_named(services, call, required_text(body_of(call), "model_id"));
  const Json result = {{"model_id", run.id}, {"type", "unload_model"}};
  services.store.set_unloaded(run.id);
  services.store.add_request(run.id, {.seq = kSeq,
                                      .kind = "unload_model",
                                      .body = {},
                                      .done = true,
                                      .result = result.dump(),
                                      .content_type = "application/json"});
  services.loop.unload(run.id);
  return accepted(run.id, kSeq);
}

serve::HttpResponse forward_backward(Services& services, const Call& call) {
  const bool is_protobuf = call.request.header("content-type").find("protobuf") != std::string_view::npos;
  return submit_data(services, call, is_protobuf ? call.request.body : forward_backward_from_json(body_of(call), false));
}

serve::HttpResponse forward(Services& services, const Call& call) {
  return submit_data(services, call, forward_backward_from_json(body_of(call), true));
}

serve::HttpResponse optim_step(Services& services, const Call& call) { return submit_json(services, call, "optim_step"); }
serve::HttpResponse save_weights(Services& services, const Call& call) { return submit_json(services, call, "save_weights"); }
serve::HttpResponse save_weights_for_sampler(Services& services, const Call& call) {
  if (const auto kind = text_field(body_of(call), "kind", "snapshot"); kind != "snapshot")
    throw serve::ApiError(
        400, fmt::format("sampler weights of kind \"{}\" are not supported by this server; expected snapshot", kind), "kind");
  return submit_json(services, call, "save_weights_for_sampler");
}

serve::HttpResponse load_weights(Services& services, const Call& call) {
  if (const auto body = body_of(call); has_field(body, "session_id")) return create_by_load(services, call, body);
  return submit_json(services, call, "load_weights");
}

}  // namespace hone::tinker

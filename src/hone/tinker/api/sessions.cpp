// Sessions: requests of a client besides its training and sampling.
#include "hone/serve/http/head.h"
#include "hone/tinker/api/call.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

Session session_named(Services& services, const Call& call, const std::string& id) {
  auto session = services.store.session(id, call.tenant);
  if (!session) throw not_found("session " + id);
  return *session;
}

}  // namespace

// Feature flags of later SDKs, set to this server's behavior.
serve::HttpResponse client_config(Services&, const Call&) {
  return serve::json_response({{"pjwt_auth_enabled", false},
                               {"credential_default_source", "api_key"},
                               {"parallel_fwdbwd_chunks", true},
                               {"proto_compress_fwdbwd", false},
                               {"proto_write_fwdbwd", true},
                               {"fwd_via_fwdbwd", true},
                               {"create_model_via_load_weights", false},
                               {"sample_use_retrieve_futures", false},
                               {"sample_join_sampling_session", false},
                               {"custom_loss_server_side", false}});
}

serve::HttpResponse dynamic_config(Services&, const Call&) {
  return serve::json_response({{"refresh_interval_sec", 3600}, {"sample_cancel_enabled", true}});
}

serve::HttpResponse capabilities(Services& services, const Call&) {
  return serve::json_response({{"supported_models", Json::array({{{"model_name", services.config.base_model},
                                                                  {"max_context_length", services.config.max_length},
                                                                  {"trainable", true},
                                                                  {"sampleable", true}}})}});
}

// A gateway gives the session the same name on all workers.
serve::HttpResponse create_session(Services& services, const Call& call) {
  auto body = body_of(call);
  const auto given = text_field(body, "session_id", "");
  if (!given.empty() && !serve::is_fresh_id(given))
    throw serve::ApiError(400, "session_id was not made by a gateway; leave it out", "session_id");
  body.erase("session_id");
  Session session{.id = given.empty() ? serve::fresh_id("") : given, .owner = call.tenant, .info = std::move(body)};
  if (!services.store.add_session(session)) throw serve::ApiError(422, "session_id is in use", "session_id");
  return serve::json_response({{"type", "create_session"}, {"session_id", session.id}});
}

serve::HttpResponse session_heartbeat(Services& services, const Call& call) {
  const auto id = required_text(body_of(call), "session_id");
  if (session_named(services, call, id).finished) throw serve::ApiError(410, "the session has finished", "", "gone");
  services.futures.note_session(id);
  return serve::json_response({{"type", "session_heartbeat"}});
}

serve::HttpResponse finish_session(Services& services, const Call& call) {
  const auto session = session_named(services, call, call.parts.at(0));
  services.store.finish_session(session.id);
  for (const auto& sample : services.futures.cancel_session(session.id)) services.loop.cancel_sample(sample);
  for (const auto& folder : services.store.drop_old_samplers(session.id, 0)) remove_saved(folder);
  return no_content();
}

serve::HttpResponse list_sessions(Services& services, const Call& call) {
  return serve::json_response({{"sessions", services.store.sessions(call.tenant, page_of(call, 20))}});
}

serve::HttpResponse get_session(Services& services, const Call& call) {
  const auto session = session_named(services, call, call.parts.at(0));
  return serve::json_response({{"training_run_ids", services.store.runs_of_session(session.id)},
                               {"sampler_ids", services.store.samplers_of_session(session.id)},
                               {"user_metadata", session.info.value("user_metadata", Json())}});
}

// Accepted and discarded: without a response the SDK would retry forever.
serve::HttpResponse telemetry(Services&, const Call&) { return serve::json_response({{"status", "accepted"}}); }

}  // namespace hone::tinker

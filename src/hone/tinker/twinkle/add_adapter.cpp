// add_adapter_to_model: a client's LoraConfig becomes a run of this server.
#include <algorithm>
#include <cctype>
#include <set>

#include "hone/tinker/state/columns.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// PEFT's LoraConfig, as the client sends it: JSON inside a string.
RunConfig lora_config(const Json& body, int64_t max_rank) {
  Json config = body.value("config", Json());
  if (config.is_string()) config = stored_json(config.get<std::string>());
  if (!config.is_object()) throw RequestError("config: expected a LoraConfig; this server does not train all weights");
  RunConfig run;
  run.rank = integer_field(config, "r", 8, 1, max_rank);
  run.alpha = real_field(config, "lora_alpha", 8, 1e-6, 1e6);
  run.seed = static_cast<uint64_t>(integer_field(body, "seed", 42, 0));
  run.dropout = real_field(config, "lora_dropout", 0, 0, 0.99);
  run.train_unembed = false;
  if (!has_field(config, "target_modules") || config["target_modules"] == "all-linear") return run;
  const auto list = config["target_modules"].is_array() ? config["target_modules"] : Json::array({config["target_modules"]});
  std::set<std::string> names;
  for (const auto& each : list) names.insert(each.is_string() ? each.get<std::string>() : "");
  const std::set<std::string> attention{"q_proj", "k_proj", "v_proj", "o_proj"}, mlp{"gate_proj", "up_proj", "down_proj"};
  std::set<std::string> both = attention;
  both.insert(mlp.begin(), mlp.end());
  if (names != attention && names != mlp && names != both)
    throw RequestError(
        "target_modules: expected all-linear, or all of q_proj, k_proj, v_proj, o_proj or of gate_proj, up_proj, down_proj");
  run.train_attn = names.contains("q_proj");
  run.train_mlp = names.contains("up_proj");
  return run;
}

}  // namespace

std::string adapter_name_in(const Json& body) {
  return required_name(body, "adapter_name", 64, "adapter_name: expected letters, digits, . _ and -, 64 of them at most");
}

Json TwinkleApi::add_adapter(const Call& call, const Json& body) {
  const auto session = services_.store.session(std::string(call.request.header("x-twinkle-session-id")), call.tenant);
  if (!session) throw not_found("session of this id");
  const auto own = services_.limits.of(call.tenant).max_rank;
  const auto name = adapter_name_in(body);
  Run run{.id = fmt::format("{}:train:{}", session->id, name),
          .session = session->id,
          .owner = call.tenant,
          .config = lora_config(body, own > 0 ? std::min(own, services_.config.max_rank) : services_.config.max_rank),
          .user_metadata = {{"adapter_name", name}},
          .snapshot = {}};
  if (!services_.store.add_run(
          run, {.seq = 0, .kind = "create_model", .body = {}, .done = true, .result = "{}", .content_type = "application/json"}))
    throw serve::ApiError(400, fmt::format("this session has an adapter called \"{}\" already", name), "adapter_name");
  TwinkleAdapter adapter;
  adapter.accumulation = integer_field(body, "gradient_accumulation_steps", 1, 1);
  services_.store.set_settings(run.id, adapter.to_json());
  return {{"status", "ok"}, {"adapter_name", run.id}};
}

}  // namespace hone::tinker

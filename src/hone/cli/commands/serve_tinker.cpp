// serve-tinker: training and sampling for the tinker SDK.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tinker.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/served_model.h"
#include "hone/cli/configs/inference/serving_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/hub_options.h"
#include "hone/text/tokenizer.h"
#include "hone/tinker/gateway/gateway.h"
#include "hone/tinker/server.h"
#include "hone/train/run_folder.h"

namespace hone::cli {
namespace {

constexpr double kCacheShare = 0.5;  // share of the memory left by the weights on an accelerator; training passes use the rest
constexpr const char* kOnlyTenant = "default";

void add_keys(const TinkerArguments& args, const std::string& given, tinker::Keys& keys) {
  if (args.api_keys.has_value()) keys.add_file(*args.api_keys);
  if (!given.empty()) keys.add(kOnlyTenant, given);
}

void make_state_folder(const fs::path& root) {
  train::check_output_folder(root, "tinker_dir");
  std::error_code failure;
  fs::permissions(root, fs::perms::owner_all, failure);
  if (failure)
    throw UserError(ExitCode::usage, fmt::format("{}: cannot be closed to other users ({})", root.string(), failure.message()),
                    "name a folder of your own with `tinker_dir`");
}

// Access requires a key: one is generated if none is given.
void make_api_key(tinker::TinkerConfig& config) {
  if (!config.keys.empty()) return;
  const auto file = config.model.root / "api_key";
  config.keys.add(kOnlyTenant, tinker::own_key(file));
  config.model.tenants = config.keys.limits();
  log::info("no API key was given; clients use the one in {}: export TINKER_API_KEY=$(cat {})", file.string(), file.string());
}

// Clients load the tokenizer by this name: the model as given, not only the last component of its path.
std::string base_name(const Options& options) {
  return ServerArguments(options).served_model_name.value_or(ModelArguments(options).model.required());
}

tinker::TinkerConfig tinker_config(const Options& options) {
  const TinkerArguments args(options);
  tinker::TinkerConfig config;
  config.http = server_config(options, false);
  config.model.root = fs::absolute(*args.tinker_dir);
  add_keys(args, config.http.api_key, config.keys);
  config.model.batch_tokens = *args.train_batch_tokens;
  config.model.resident_bytes = static_cast<int64_t>(*args.max_resident_gb * 1e9);
  config.model.checkpoint_bytes = static_cast<int64_t>(*args.max_checkpoint_gb * 1e9);
  config.model.engine = config.http.engine;
  config.model.tenants = config.keys.limits();
  config.model.max_adapters = std::max<size_t>(1, config.http.max_adapters);
  config.api.max_adapters = static_cast<int64_t>(config.model.max_adapters);
  config.api.max_rank = *args.max_rank;
  config.api.dataset_root = *args.dataset_root;
  if (args.dataset_root.has_value() && !fs::is_directory(config.api.dataset_root))
    throw UserError(ExitCode::usage, fmt::format("{} {}: no such folder", args.dataset_root.flag(), *args.dataset_root));
  config.api.is_tls = !config.http.certificate_file.empty();
  config.api.base_model = base_name(options);
  config.model.base_model = config.api.base_model;
  return config;
}

// Loads no model: the workers have them. Each worker checks every key again, so its own keys decide.
int serve_gateway(const Options& options) {
  const TinkerArguments args(options);
  tinker::GatewayConfig config;
  config.http = server_config(options, false);
  add_keys(args, config.http.api_key, config.keys);
  if (config.keys.empty())
    throw UserError(ExitCode::usage, fmt::format("{} without {} or an API key", args.worker_urls.flag(), args.api_keys.flag()),
                    "give the gateway the keys that its workers have");
  if (const ModelArguments model_args(options); model_args.model.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} and {}: a gateway has no model", args.worker_urls.flag(), model_args.model.flag()),
                    "serve the model at another port, and name that address as well");
  config.workers = {.worker_urls = *args.worker_urls, .trusted = trusted_certificates()};
  return tinker::run_tinker_gateway(config);
}

// Reports unsupported settings before loading the model.
void check_tinker_server(const Options& options) {
  const ModelArguments model_args(options);
  const EngineArguments engine_args(options);
  const auto refuse = [](const AnyArg& option, const char* why, const char* instead = "leave it out") {
    throw UserError(ExitCode::usage, fmt::format("{}: {}", option.flag(), why), instead);
  };
  if (model_args.quant_bits.has_value()) refuse(model_args.quant_bits, "weights rounded for inference cannot be trained on");
  if (model_args.quant_method.has_value()) refuse(model_args.quant_method, "quantized weights are not supported by this server");
  if (model_args.adapters.has_value())
    refuse(model_args.adapters, "clients of this server bring their own adapters",
           "serve the base model, or merge the adapter first (hone export --merge_lora true)");
  if (*model_args.task_type != "causal_lm") refuse(model_args.task_type, "this server trains and samples language models");
  for (const auto* size :
       {&engine_args.vllm_tensor_parallel_size, &engine_args.vllm_pipeline_parallel_size, &engine_args.vllm_data_parallel_size})
    if (**size != 1) refuse(*size, "this server has one model on one device");
}

engine::EngineConfig engine_beside_training(const Options& options) {
  const EngineArguments engine_args(options);
  auto config = engine_config(options);
  config.fuse_projections = false;  // training uses the same tensors
  if (const auto& share = engine_args.vllm_gpu_memory_utilization; !share.is_set() && config.gpu_memory_utilization == *share)
    config.kv_cache_share = kCacheShare;
  return config;
}

}  // namespace

int serve_tinker_command(const Options& options) {
  if (const TinkerArguments args(options); args.worker_urls.has_value()) return serve_gateway(options);
  check_tinker_server(options);
  auto config = tinker_config(options);  // reports errors in it before loading the model
  serve::require_port(config.http);
  const auto folder = model_folder(options);
  make_state_folder(config.model.root);
  tinker::check_state_folder(config.model.root, config.api.base_model);
  make_api_key(config);
  std::shared_ptr<const text::Tokenizer> tokenizer = text::load_tokenizer(folder, new_tokens(options));
  const auto model = load_model(options, folder, *tokenizer);
  engine::Engine engine(*model, tokenizer, engine_beside_training(options));
  config.model.end_tokens = end_tokens(folder);
  config.model.max_length = config.api.max_length = engine.max_model_len();
  auto encoder = data::Encoder::make(prompt_config(options), tokenizer, data::read_model_identity(folder));
  auto served = served_model(options, folder, tokenizer, std::move(encoder), engine, *model);
  served.name = config.api.base_model;
  return tinker::run_tinker_server(*model, engine, served, config);
}

}  // namespace hone::cli

#include "hone/engine/kv_cache_size.h"

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/memory.h"
#include "hone/engine/routed_experts.h"
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/memory/delta_net_memory.h"
#include "hone/ops/attention/kv_quantization.h"

namespace hone::engine {
namespace {

// On the CPU a prompt takes seconds; smaller chunks keep decoding responsive. A GPU needs thousands of tokens to be busy.
constexpr int64_t kStepTokensCpu = 512, kStepTokensAccelerator = 8192;
constexpr double kPartOfFreeMemory = 0.25;  // on the CPU, which is shared with other programs

// Estimated activations of a step on an accelerator: hidden states, the two halves of the MLP, rows of logits, and
// in one layer what linear attention computes with.
int64_t activation_bytes(const EngineConfig& config, const model::DecoderConfig& shape) {
  const int64_t of_token = 2 * (4 * shape.widest_inner() + 16 * shape.hidden_size) + model::delta_net_bytes_per_token(shape),
                of_sequence = 8 * shape.vocab_size + model::delta_net_bytes_per_sequence(shape);
  return config.max_num_batched_tokens * of_token + config.max_num_seqs * of_sequence;
}

int64_t bytes_for_cache(const EngineConfig& config, const model::CausalLM& model, at::Device device) {
  auto use = device::memory_use(device);
  if (device.is_cpu())
    return static_cast<int64_t>(static_cast<double>(use.total - use.current) * kPartOfFreeMemory * config.gpu_memory_utilization);
  const int64_t left = static_cast<int64_t>(static_cast<double>(use.total) * config.gpu_memory_utilization) - use.current -
                       activation_bytes(config, model.config());
  return static_cast<int64_t>(static_cast<double>(left) * config.kv_cache_share);
}

// How many layers with attention, or without, each device has.
int64_t layers_on(at::Device device, const model::CausalLM& model, bool is_linear) {
  const auto blocks = model::block_devices(model.decoder());
  int64_t layers = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    layers += blocks[i] == device && model.config().is_linear(static_cast<int64_t>(i)) == is_linear;
  return layers;
}

// Workspace of a sequence in addition to its recurrent states; bytes_for_cache counts it on accelerators only.
double working_bytes(at::Device device, const model::CausalLM& model) {
  return device.is_cpu() ? 0 : static_cast<double>(model::delta_net_bytes_per_sequence(model.config()));
}

// A sequence needs its recurrent states, and a token its keys and values, on every device with such layers; the fullest one
// decides.
int64_t states_for_cache(const EngineConfig& config, const model::CausalLM& model) {
  const auto per_layer = static_cast<double>(model::RecurrentStates::bytes_per_layer(model.config(), model.dtype()));
  auto one = config;
  one.max_num_seqs = 1;
  auto fits = config.max_num_seqs;
  for (auto device : model::devices_of(model.decoder()))
    if (const auto here = layers_on(device, model, true); here > 0)
      fits = model::RecurrentStates::fitting(fits, per_layer * static_cast<double>(here) + working_bytes(device, model),
                                             static_cast<double>(bytes_for_cache(one, model, device)));
  return fits;
}

int64_t tokens_for_cache(const EngineConfig& config, const model::CausalLM& model, int64_t bytes_per_token) {
  const auto per_slot = model::RecurrentStates::bytes_per_layer(model.config(), model.dtype());
  int64_t all = 0;
  auto fits = std::numeric_limits<int64_t>::max();
  for (auto device : model::devices_of(model.decoder())) all += layers_on(device, model, false);
  for (auto device : model::devices_of(model.decoder())) {
    const int64_t here = layers_on(device, model, false), states = layers_on(device, model, true) * per_slot;
    if (here > 0)
      fits = std::min(fits,
                      (bytes_for_cache(config, model, device) - config.max_num_seqs * states) * all / (bytes_per_token * here));
  }
  return fits;
}

// Recurrent states are only those after a sequence's last token: nothing can resume from an earlier one.
void limit_for_states(EngineConfig& config, const model::CausalLM& model) {
  if (!model.config().linear_attention) return;
  if (config.speculative_tokens > 0)
    log::warn_once("speculative decoding is off: the recurrent states of this model cannot go back over rejected draft tokens");
  config.speculative_tokens = 0;
  config.enable_prefix_caching = false;
  const auto wanted = config.max_num_seqs;
  if (config.kv_cache_tokens <= 0) config.max_num_seqs = states_for_cache(config, model);
  const auto each = model::RecurrentStates::bytes_per_sequence(model.config(), model.dtype());
  log::info("recurrent states of {} sequences, {} each{}; prefixes of prompts are not cached", config.max_num_seqs,
            format_bytes(static_cast<double>(each)),
            config.max_num_seqs < wanted
                ? fmt::format(", in half of the cache: fewer than `vllm_max_num_seqs` {} run at a time", wanted)
                : "");
}

}  // namespace

model::DecoderConfig kv_cache_shape(model::CausalLM& model) {
  auto shape = model.config();
  for (const auto& block : model.decoder().blocks)
    if (!shape.is_linear(block.layer)) shape.attention.kv_heads = block.shape.kv_heads;
  return shape;
}

EngineConfig resolve_engine_config(EngineConfig config, model::CausalLM& model) {
  const int64_t trained = model.config().max_position_embeddings;
  if (config.max_model_len <= 0) config.max_model_len = trained;
  if (config.max_model_len > trained)
    log::warn_once(
        fmt::format("`vllm_max_model_len` is {}, and the model was trained on {} positions: set `rope_scaling` to extend them",
                    config.max_model_len, trained));
  if (config.max_num_batched_tokens <= 0)
    config.max_num_batched_tokens = model.device().is_cpu() ? kStepTokensCpu : kStepTokensAccelerator;
  if (!ops::supports_kv_cache_dtype(config.kv_cache_dtype, model.device()))
    throw UserError(ExitCode::usage, fmt::format("{} has no 8-bit floats to keep keys and values in", model.device().str()),
                    "use 8-bit integers instead (`lmdeploy_quant_policy` 8)");
  const bool is_sharded = model::is_tensor_parallel(model);
  if (config.enable_return_routed_experts && (model.config().experts.count == 0 || is_sharded))
    throw UserError(ExitCode::usage,
                    is_sharded ? "the engine cannot return routed experts of a tensor parallel model"
                               : "the model has no experts, whose choice the engine is to return",
                    "leave enable_return_routed_experts out");
  limit_for_states(config, model);
  if (config.kv_cache_tokens <= 0) {
    auto per_token = model::PagedKvCache::bytes_per_token(kv_cache_shape(model), model.dtype(), config.kv_cache_dtype);
    if (config.enable_return_routed_experts && model.device().is_cpu())
      per_token += RoutedExperts::bytes_per_token(model.config());
    auto fits = tokens_for_cache(config, model, per_token);
    if (fits < config.block_size)
      throw UserError(ExitCode::out_of_memory,
                      fmt::format("the weights leave no memory for the KV cache ({} per token) at a memory utilization of {}",
                                  format_bytes(static_cast<double>(per_token)), config.gpu_memory_utilization),
                      "raise `vllm_gpu_memory_utilization`, or use a smaller model");
    config.kv_cache_tokens = std::min(fits, config.max_num_seqs * config.max_model_len);
  }
  config.kv_cache_tokens = (config.kv_cache_tokens + config.block_size - 1) / config.block_size * config.block_size;
  return config;
}

}  // namespace hone::engine

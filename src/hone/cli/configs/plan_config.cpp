#include "hone/cli/configs/plan_config.h"

#include <fmt/ranges.h>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/media_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/compute_config.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/cli/configs/training/ppo_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/cli/configs/training/training_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/hub/locate.h"
#include "hone/io/weight_folder.h"
#include "hone/model/config.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/train/plan/memory.h"
#include "hone/train/plan/shapes.h"

namespace hone::cli {
namespace {

constexpr int64_t kAssumedLength = 2048;

std::optional<fs::path> folder_of(const Options& options) {
  auto name = ModelArguments(options).model.required();
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return fs::path(name);
  return hub::find_in_caches(name, hub::Kind::model, *HubArguments(options).model_revision);
}

// The dtype of the stored weights: from config.json, else from the headers of the files.
at::ScalarType stored_type(const model::DecoderConfig& config, const std::optional<fs::path>& folder) {
  if (config.dtype) return *config.dtype;
  if (!folder || !fs::exists(*folder / "model.safetensors")) return at::kFloat;
  io::WeightFolder weights(*folder);
  return weights.entries().empty() ? at::kFloat : weights.entries().begin()->second->dtype;
}

model::DecoderConfig shape_of(const ModelArguments& args, const std::optional<fs::path>& folder,
                              std::vector<std::string>& assumptions) {
  if (folder) return model::read_config(*folder);
  auto name = *args.model;
  if (auto shape = train::known_shape(name)) {
    assumptions.push_back(name + " is not on this machine; its shape is known");
    return model::parse_config(*shape, name);
  }
  throw UserError(
      ExitCode::usage, fmt::format("{} is neither a folder nor a cached or known model", name),
      fmt::format("a folder with config.json is enough; known models: {}", fmt::join(train::known_shape_names(), ", ")));
}

int64_t row_length(const DataArguments& args, const model::DecoderConfig& config, std::vector<std::string>& assumptions) {
  bool packs = *args.packing && args.packing_length.has_value();
  if (packs) return *args.packing_length;
  if (args.max_length.has_value()) return *args.max_length;
  auto length = std::min(kAssumedLength, config.max_position_embeddings > 0 ? config.max_position_embeddings : kAssumedLength);
  assumptions.push_back(fmt::format("rows are assumed to have {} tokens, since {} is not given", length, args.max_length.flag()));
  return length;
}

train::Sharding sharding_asked(const Options& options) {
  const auto request = sharding_request(options);
  if (!request) return train::Sharding::none;
  const auto& asked = request->sharding;
  const bool offload = asked.offload_optimizer;
  switch (asked.stage) {
    case 1:
      return train::Sharding::zero1;
    case 2:
      return offload ? train::Sharding::zero2_offload : train::Sharding::zero2;
    case 3:
      return offload                       ? train::Sharding::zero3_offload
             : asks_for_deepspeed(options) ? train::Sharding::zero3
                                           : train::Sharding::fsdp;
    default:
      return train::Sharding::none;
  }
}

train::ModelLayout layout_asked(const Options& options) {
  const DistributedArguments args(options);
  if (!args.tensor_parallel_size.exists()) return {};
  auto size = [](const Arg<int64_t>& option) { return static_cast<int>(*option); };
  return {size(args.tensor_parallel_size), size(args.pipeline_parallel_size), size(args.context_parallel_size),
          size(args.expert_parallel_size)};
}

// Memory besides tensors: libtorch and its threads, and the tokenizer, whose tables take a few times the size of its file.
double runtime_bytes(const std::optional<fs::path>& folder) {
  constexpr double kProgram = 175.0 * (1 << 20), kTablesPerByte = 8;
  std::error_code absent;
  auto file = folder ? fs::file_size(*folder / "tokenizer.json", absent) : 0;
  return kProgram + (absent ? 0 : kTablesPerByte * static_cast<double>(file));
}

// Bytes per weight of a quantized base: the code and its share of the scales. 0 if not quantized.
double compressed_bytes(const ModelArguments& args) {
  if (!args.quant_bits.has_value()) return 0;
  const int bits = std::stoi(*args.quant_bits);
  const auto method = args.quant_method.value_or("bnb");
  if (method == "hqq" || (method == "quanto" && bits != 8)) return 1.0 / (8 / bits) + 8.0 / (method == "hqq" ? 64 : 128);
  if (bits == 8) return 1;
  return 0.5 + (*args.bnb_4bit_use_double_quant ? 1.0 / 64 : 4.0 / 64);
}

// A preference row has two sequences. The reference is a second model unless the adapter can be disabled.
void count_preference(const Options& options, bool adapter, train::Workload& work) {
  const PreferenceArguments args(options);
  const auto method = training_method(options);
  const bool compares = method == "dpo" || method == "kto";
  if ((compares || method == "cpo" || method == "simpo" || method == "orpo" || method == "rm") && !DataArguments(options).packing)
    work.tokens *= 2;
  const auto loss = compares && args.loss_type.has_value() ? args.loss_type->front() : "";
  const bool free = loss == "orpo" || loss == "simpo" || *args.reference_free;
  work.reference = compares && !free && (!adapter || args.ref_model.has_value());
}

// The teacher is a separate frozen model unless it is the base model without the adapter.
void count_distillation(const Options& options, bool adapter, PlanJob& plan) {
  const DistillationArguments args(options);
  auto& work = plan.workload;
  if (*args.lmbda > 0)
    plan.assumptions.push_back(fmt::format("completions of {} tokens at most", *GenerationArguments(options).max_new_tokens));
  if (!args.teacher_model.has_value() || (adapter && *args.teacher_model == *ModelArguments(options).model)) return;
  train::Workload teacher;
  teacher.model = model::read_config(hub::locate_model(*args.teacher_model, *args.teacher_model_revision));
  train::count_parameters(teacher, tuner::TunerConfig{.kind = tuner::TunerType::full});
  work.reference = true;
  work.reference_parameters = teacher.parameters;
}

// Batches count completions, each with its prompt. The engine's KV cache takes as much memory as allowed and releases it between
// rollouts if sleep mode is on.
void count_reinforcement(const Options& options, bool adapter, PlanJob& plan) {
  const EngineArguments engine_args(options);
  const GenerationArguments generation_args(options);
  const PreferenceArguments preference_args(options);
  const TrainingArguments training_args(options);
  auto& work = plan.workload;
  const auto& attention = work.model.attention;
  auto longest = work.tokens / *training_args.per_device_train_batch_size + *generation_args.max_new_tokens;
  if (work.model.max_position_embeddings > 0) longest = std::min(longest, work.model.max_position_embeddings);
  work.tokens = *training_args.per_device_train_batch_size * longest;
  work.row_length = longest;
  const bool ppo = training_method(options) == "ppo", factory = uses_factory_dialect(options);
  const bool compares = ppo ? factory || *PpoArguments(options).kl_coef > 0 : *preference_args.beta > 0;
  work.reference = compares && (!adapter || preference_args.ref_model.has_value());
  work.value_model = ppo && has_own_value_model(options);
  if (factory) return;  // LLaMA-Factory's PPO has no engine settings
  if (uses_rollout_servers(options)) {
    plan.assumptions.push_back(fmt::format("completions of {} tokens after their prompts, generated by rollout servers",
                                           *generation_args.max_new_tokens));
    return;
  }
  const auto most = *engine_args.vllm_max_num_seqs * engine_args.vllm_max_model_len.value_or(longest);
  const auto dtype = work.weight_bytes > 2 ? at::kFloat : at::kBFloat16;
  work.cache_bytes =
      static_cast<double>(most * work.model.attention_layers() * 2 * attention.kv_heads * attention.head_dim) *
          work.weight_bytes +
      static_cast<double>(*engine_args.vllm_max_num_seqs * model::RecurrentStates::bytes_per_sequence(work.model, dtype));
  work.gpu_memory_utilization = *engine_args.vllm_gpu_memory_utilization;
  work.engine_sleeps = *engine_args.sleep_level > 0;
  plan.assumptions.push_back(fmt::format(
      "completions of {} tokens after their prompts; the engine's KV cache takes {} at most, and no more than {} {} leaves{}",
      *generation_args.max_new_tokens, format_bytes(work.cache_bytes), engine_args.vllm_gpu_memory_utilization.flag(),
      work.gpu_memory_utilization, work.engine_sleeps ? "; it is released while the model trains" : ""));
  if (auto judges = *RewardArguments(options).reward_model; !judges.empty())
    plan.assumptions.push_back(fmt::format("the weights of {} come on top", fmt::join(judges, ", ")));
}

// One image per row, as large as the settings and the row's length allow.
void count_images(const Options& options, PlanJob& plan) {
  auto& work = plan.workload;
  if (!work.model.vision) return;
  const auto& tower = *work.model.vision;
  const auto asked = picture_options(options);
  const int64_t side = tower.patch_size * tower.merge_size, cell = side * side;
  constexpr int64_t kOvisPixels = 1344 * 1792, kMostTokens = 16384;
  int64_t most = uses_factory_dialect(options) ? asked.factory_max_pixels / cell
                 : asked.max_tokens            ? *asked.max_tokens
                 : asked.max_pixels            ? *asked.max_pixels / cell
                 : tower.has_marks()           ? kOvisPixels / cell
                                               : kMostTokens;
  if (tower.has_class_token) most = (asked.max_tiles + 1) * tower.position_grid * tower.position_grid / tower.merge_unit();
  work.images = std::max<int64_t>(1, work.tokens / std::max<int64_t>(work.row_length, 1));
  if (asked.pan_and_scan && tower.bidirectional_images) work.images *= 1 + media::PanAndScanConfig().max_num_crops;
  work.image_tokens = train::image_tokens(tower, std::max<int64_t>(1, std::min(most, work.row_length)));
  work.tower_recompute =
      TrainingArguments(options).vit_gradient_checkpointing.value_or(*TrainingArguments(options).gradient_checkpointing);
  if (!tower.has_fixed_grid) plan.token_pixels = cell;
  plan.pixel_setting = uses_factory_dialect(options) ? "image_max_pixels: " : "MAX_PIXELS=";
  plan.assumptions.push_back(fmt::format("one image of {} tokens per row, the largest that fits", work.image_tokens));
}

}  // namespace

PlanJob plan_job(const Options& options) {
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  check_method(options);
  PlanJob plan;
  plan.model = model_args.model.required();
  auto folder = folder_of(options);
  auto& work = plan.workload;
  work.model = shape_of(model_args, folder, plan.assumptions);
  train::TrainingJob job;
  job.tuner = tuner_config(options);
  job.optimizer = optimizer_config(options);
  auto stored = stored_type(work.model, folder);
  read_precision(options, stored, job);
  work.weight_bytes = static_cast<double>(c10::elementSize(job.load.dtype.value_or(stored)));
  work.linear_bytes = compressed_bytes(model_args);
  work.masters = !job.trainer.no_master_weights && work.weight_bytes < 4 && job.tuner.kind != tuner::TunerType::adapter;
  train::count_parameters(work, job.tuner);
  train::count_optimizer(work, job.optimizer);
  work.row_length = row_length(DataArguments(options), work.model, plan.assumptions);
  work.tokens = *training_args.per_device_train_batch_size * work.row_length;
  const bool adapter = job.tuner.kind == tuner::TunerType::adapter;
  const auto method = training_method(options);
  if (method == "grpo" || method == "ppo")
    count_reinforcement(options, adapter, plan);
  else if (method == "gkd")
    count_distillation(options, adapter, plan);
  else
    count_preference(options, adapter, work);
  count_images(options, plan);
  work.accumulation = *training_args.gradient_accumulation_steps;
  work.recompute = *training_args.gradient_checkpointing;
  if (training_args.activation_memory_budget.has_value()) {
    work.activation_memory_budget = *training_args.activation_memory_budget;
    work.recompute = *work.activation_memory_budget < 1;
  }
  plan.sharding = sharding_asked(options);
  plan.layout = layout_asked(options);
  plan.place = {.cpu = *model_args.use_cpu || *model_args.devices == "cpu", .runtime_bytes = runtime_bytes(folder)};
  return plan;
}

InferencePlanJob inference_plan_job(const Options& options) {
  const ModelArguments args(options);
  constexpr int64_t kStepTokens = 8192;  // the engine's prefill chunk on an accelerator
  InferencePlanJob plan;
  plan.model = args.model.required();
  auto folder = folder_of(options);
  train::Workload counted;
  counted.model = shape_of(args, folder, plan.assumptions);
  train::count_parameters(counted, tuner::TunerConfig{.kind = tuner::TunerType::full});
  const auto stored = dtype_option(ModelArguments(options).torch_dtype).value_or(stored_type(counted.model, folder));
  const auto bytes = static_cast<double>(c10::elementSize(stored));
  auto& work = plan.workload;
  work.model = counted.model;
  plan.parameters = counted.parameters;
  work.weights = static_cast<double>(counted.parameters) * bytes;
  if (const double linear = compressed_bytes(args); linear > 0)
    work.weights -= static_cast<double>(counted.linear_parameters) * (bytes - linear);
  const auto engine = engine_config(options);
  work.cache_bytes_per_token =
      static_cast<double>(model::PagedKvCache::bytes_per_token(work.model, stored, engine.kv_cache_dtype));
  work.state_bytes_per_sequence = static_cast<double>(model::RecurrentStates::bytes_per_sequence(work.model, stored));
  work.max_model_len = engine.max_model_len > 0 ? engine.max_model_len : work.model.max_position_embeddings;
  work.max_num_seqs = engine.max_num_seqs;
  work.step_tokens = engine.max_num_batched_tokens > 0 ? engine.max_num_batched_tokens : kStepTokens;
  work.gpu_memory_utilization = engine.gpu_memory_utilization;
  const auto asked = engine_integer(options, EngineArguments(options).vllm_tensor_parallel_size, "tensor_parallel_size");
  if (asked > 1 && work.model.linear_attention)
    model::TensorParallelDecoder::check(work.model, static_cast<size_t>(asked));  // as the engine refuses it
  plan.devices = asked > 0 ? static_cast<int>(asked) : work.model.linear_attention ? 1 : 8;
  if (asked <= 0 && !work.model.linear_attention) plan.assumptions.push_back("assuming 8 devices");
  if (engine.max_model_len <= 0)
    plan.assumptions.push_back(fmt::format("a sequence may hold {} tokens, the model's own limit; {} lowers it",
                                           work.max_model_len, EngineArguments(options).vllm_max_model_len.flag()));
  if (!args.adapters->empty()) plan.assumptions.push_back("the weights of adapters come on top");
  return plan;
}

}  // namespace hone::cli

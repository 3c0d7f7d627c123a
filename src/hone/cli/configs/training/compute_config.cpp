#include "hone/cli/configs/training/compute_config.h"

#include <fmt/ranges.h>

#include <charconv>

#include "hone/base/log.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/ops/fused_operators.h"

namespace hone::cli {
namespace {

// Liger's switches by name, with its defaults: kernels that are not named are enabled.
ops::FusedOperators fused_by_config(const ModelArguments& args) {
  ops::FusedOperators fused;
  if (!args.liger_kernel_config.has_value()) return fused;
  const auto given = *args.liger_kernel_config;
  const auto shown = args.liger_kernel_config.flag();
  if (!given.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", shown, given.dump()),
                    R"(expected an object, as in {"rope": false, "swiglu": false})");
  if (!args.use_liger_kernel) return fused;
  bool whole = false;
  const std::pair<std::string_view, bool*> switches[] = {{"rope", &fused.rope},
                                                         {"rms_norm", &fused.rms_norm},
                                                         {"swiglu", &fused.swiglu},
                                                         {"cross_entropy", &whole},
                                                         {"fused_linear_cross_entropy", &fused.linear_cross_entropy}};
  for (const auto& [name, value] : given.items()) {
    if (!value.is_boolean())
      throw UserError(ExitCode::usage, fmt::format("{}: \"{}\" is {}", shown, name, value.dump()), "expected true or false");
    auto found = std::ranges::find(switches, name, [](const auto& each) { return each.first; });
    if (found != std::end(switches))
      *found->second = value.get<bool>();
    else if (name != "geglu" && name != "layer_norm")  // Liger's too, for families that hone lacks
      throw UserError(ExitCode::usage, fmt::format("{}: \"{}\" is not one of its switches", shown, name),
                      "expected rope, rms_norm, swiglu, cross_entropy and fused_linear_cross_entropy");
  }
  if (whole && fused.linear_cross_entropy)
    throw UserError(ExitCode::usage, fmt::format("{}: cross_entropy and fused_linear_cross_entropy cannot both be true", shown),
                    "add \"fused_linear_cross_entropy\": false");
  fused.cross_entropy = whole || fused.linear_cross_entropy;
  return fused;
}

void say_what_is_plain(const ops::FusedOperators& fused) {
  std::vector<std::string_view> plain;
  for (auto [name, on] : {std::pair<std::string_view, bool>{"rope", fused.rope},
                          {"rms_norm", fused.rms_norm},
                          {"swiglu", fused.swiglu},
                          {"cross_entropy", fused.cross_entropy},
                          {"fused_linear_cross_entropy", fused.linear_cross_entropy}})
    if (!on) plain.push_back(name);
  if (!plain.empty()) log::info("computed by plain operators instead of fused ones: {}", fmt::join(plain, ", "));
}

bool wants_float8(const Options& options) {
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  const auto& backend = training_args.fp8_backend;
  const auto& gathers = training_args.fp8_enable_fsdp_float8_all_gather;
  const bool implied = gathers.exists() && *gathers;
  if (implied && !training_args.fp8) log::warning("{} turns {} on", gathers.flag(), training_args.fp8.flag());
  if (!training_args.fp8 && !implied) return false;
  if (backend.exists() && *backend != "auto" && *backend != "torchao")
    throw UserError(ExitCode::usage, fmt::format("{} is {}", backend.flag(), *backend),
                    "hone's recipe is torchao's: leave it out, or set it to auto or torchao");
  if (model_args.quant_bits.has_value() || model_args.quant_method.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} and {} exclude each other", training_args.fp8.flag(), model_args.quant_bits.flag()),
                    "weights are either quantized or multiplied in fp8");
  return true;
}

bool wants_shifted_attention(const Options& options, const model::DecoderConfig& config) {
  const auto shift_attn = ModelArguments(options).shift_attn;
  const auto tuner_type = TunerArguments(options).tuner_type;
  if (!shift_attn && *tuner_type != "longlora") return false;
  const auto name = *shift_attn ? shift_attn.flag() : tuner_type.flag();
  if (std::ranges::any_of(config.sliding_windows, [](int64_t window) { return window > 0; }))
    throw UserError(ExitCode::usage, fmt::format("{}: this model's attention has a window already", name), "leave it out");
  if (config.linear_attention)
    throw UserError(ExitCode::usage, fmt::format("{}: most layers of this model have linear attention", name), "leave it out");
  log::info("shifted sparse attention: four groups in every text, shifted by half of one for half of the heads");
  return true;
}

// Each process reads its own rows, losses are divided by the global token count, and the order of rows depends only on the seed.
constexpr std::string_view kWithoutEffect[] = {"dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking",
                                               "use_configured_state"};

UserError wrong_accelerator(const DistributedArguments& args, const std::string& key, const Json& value, const char* expected) {
  return UserError(ExitCode::usage, fmt::format("{}: {} is {}", args.accelerator_config.flag(), key, value.dump()),
                   fmt::format("expected {}", expected));
}

// As in transformers: it replaces gradient_accumulation_steps, and setting both would be ambiguous.
void read_accumulation(const DistributedArguments& args, const Json& settings, train::TrainingJob& job) {
  const auto steps = TrainingArguments(args.options()).gradient_accumulation_steps;
  if (settings.is_null()) return;
  if (!settings.is_object()) throw wrong_accelerator(args, "gradient_accumulation_kwargs", settings, "an object");
  for (const auto& [key, value] : settings.items()) {
    if (key == "sync_each_batch" || key == "adjust_scheduler" || key == "sync_with_dataloader")
      continue;  // the gradients are the same
    if (key != "num_steps")
      throw wrong_accelerator(args, "gradient_accumulation_kwargs." + key, value, "num_steps or sync_each_batch");
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      throw wrong_accelerator(args, "gradient_accumulation_kwargs.num_steps", value, "a number above 0");
    if (steps.is_set() && *steps > 1)
      throw UserError(
          ExitCode::usage,
          fmt::format("{} sets num_steps to {} and {} is {}", args.accelerator_config.flag(), value.dump(), steps.flag(), *steps),
          "keep one of them");
    job.trainer.gradient_accumulation_steps = value.get<int64_t>();
  }
}

// A memory budget alone decides what is recomputed, so other recompute options are rejected.
void read_budget(const TrainingArguments& args, train::TrainingJob& job) {
  const auto& budget = args.activation_memory_budget;
  if (!budget.has_value()) return;
  job.activation_checkpointing.memory_budget = *budget;
  const std::vector<AnyArg> others{args.recompute_granularity, args.recompute_modules, args.recompute_num_layers,
                                   args.recompute_layers};
  for (const auto& other : others)
    if (other.is_set())
      throw UserError(ExitCode::usage, fmt::format("{} and {} exclude each other", budget.flag(), other.flag()),
                      "a budget chooses which parts of which blocks are recomputed");
  if (args.gradient_checkpointing.is_set() && !*args.gradient_checkpointing && *budget < 1)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} recomputes, and {} is off", budget.flag(), *budget, args.gradient_checkpointing.flag()),
                    fmt::format("leave out one of the two; {} 1 keeps everything", budget.flag()));
}

}  // namespace

void read_compute(const Options& options, const model::DecoderConfig& config, train::TrainingJob& job) {
  fused_by_config(ModelArguments(options));  // reports its errors before starting any process
  job.float8 = wants_float8(options);
  job.shifted_attention = wants_shifted_attention(options, config);
}

void set_process_switches(const Options& options) {
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  at::globalContext().setDeterministicAlgorithms(*training_args.full_determinism, /*warn_only=*/false);
  if (training_args.tf32.has_value()) at::globalContext().setAllowTF32CuBLAS(*training_args.tf32);
  if (model_args.liger_kernel_config.has_value() && !model_args.use_liger_kernel)
    log::warning("{} has no effect without {}", model_args.liger_kernel_config.flag(), model_args.use_liger_kernel.flag());
  ops::fused_operators() = fused_by_config(model_args);
  say_what_is_plain(ops::fused_operators());
}

void read_accelerator(const Options& options, train::TrainingJob& job) {
  const DistributedArguments args(options);
  if (!args.accelerator_config.has_value()) return;
  auto settings = *args.accelerator_config;
  if (!settings.is_object())
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}; expected an object", args.accelerator_config.flag(), settings.dump()));
  std::vector<std::string> idle;
  for (const auto& [key, value] : settings.items()) {
    if (key == "gradient_accumulation_kwargs") {
      read_accumulation(args, value, job);
    } else if (key == "split_batches") {
      if (!value.is_boolean()) throw wrong_accelerator(args, key, value, "true or false");
      job.split_batches = value.get<bool>();
    } else if (std::ranges::count(kWithoutEffect, std::string_view(key))) {
      idle.push_back(key);
    } else {
      throw wrong_accelerator(
          args, key, value,
          "split_batches, gradient_accumulation_kwargs, dispatch_batches, even_batches, use_seedable_sampler or non_blocking");
    }
  }
  if (!idle.empty()) log::info("{}: {} has no effect", args.accelerator_config.flag(), fmt::join(idle, ", "));
}

void read_recompute(const Options& options, int64_t layers, train::TrainingJob& job) {
  const TrainingArguments args(options);
  auto& config = job.activation_checkpointing;
  config.enabled = *args.gradient_checkpointing;
  read_budget(args, job);
  if (args.tower_cache.has_value())
    job.tower_cache = {*args.tower_cache, static_cast<size_t>(*args.tower_cache_size * static_cast<double>(size_t{1} << 30))};
  if (uses_factory_dialect(options)) {
    config.offload = *ModelArguments(options).use_unsloth_gc;
    return;
  }
  if (args.vit_gradient_checkpointing.has_value()) config.towers = *args.vit_gradient_checkpointing;
  auto granularity = *args.recompute_granularity;
  if (granularity == "none") config.what = model::Recompute::none;
  if (granularity == "selective")
    config.what = *args.recompute_modules == "mlp" ? model::Recompute::mlp : model::Recompute::attention;
  if (args.recompute_num_layers.has_value())
    for (int64_t i = 0; i < std::min(layers, *args.recompute_num_layers); ++i) config.blocks.push_back(i);
  for (const auto& text : *args.recompute_layers) {
    int64_t block = -1;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
    if (error != std::errc() || end != text.data() + text.size() || block < 0 || block >= layers)
      throw UserError(ExitCode::usage, fmt::format("{} names block \"{}\"", args.recompute_layers.flag(), text),
                      fmt::format("the model has blocks 0 to {}", layers - 1));
    config.blocks.push_back(block);
  }
}

// ms-swift updates half-precision weights directly; LLaMA-Factory keeps float32 master weights unless an option says otherwise.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job) {
  const TrainingArguments args(options);
  bool factory = uses_factory_dialect(options);
  bool bf16 = *args.bf16, fp16 = *args.fp16;
  if (!bf16 && !fp16) bf16 = launched_precision(options) == "bf16", fp16 = launched_precision(options) == "fp16";
  const bool pure_fp16 = fp16 && *args.fp16_opt_level == "O3";
  fp16 = fp16 && *args.fp16_opt_level != "O0";
  job.load.dtype = dtype_option(ModelArguments(options).torch_dtype);
  bool pure_bf16 = *args.pure_bf16;
  if (pure_bf16) job.load.dtype = at::kBFloat16;
  if (pure_fp16) job.load.dtype = at::kHalf;
  bool whole = job.tuner.kind != tuner::TunerType::adapter;
  if (!whole && !job.load.dtype && (bf16 || fp16)) job.load.dtype = fp16 ? at::kHalf : at::kBFloat16;
  if (whole && fp16) job.load.dtype = at::kHalf;  // computed in float16, updated in float32
  if (factory && whole && !bf16 && !fp16 && !pure_bf16 && !job.load.dtype) job.load.dtype = at::kFloat;
  auto type = job.load.dtype.value_or(stored);
  if ((fp16 && type != at::kHalf) || (bf16 && type != at::kBFloat16))
    log::warning("{}: the weights are {} and are computed with as they are; {} {} changes that",
                 (fp16 ? args.fp16 : args.bf16).flag(),
                 type == at::kHalf       ? "float16"
                 : type == at::kBFloat16 ? "bfloat16"
                                         : "float32",
                 ModelArguments(options).torch_dtype.flag(), fp16 ? "float16" : "bfloat16");
  bool half = type == at::kHalf || fp16, brain = type == at::kBFloat16 || bf16;
  job.trainer.precision = half ? train::Precision::float16 : brain ? train::Precision::bfloat16 : train::Precision::float32;
  bool block_wise = job.optimizer.name == "badam";  // which keeps float32 copies of one block itself
  job.trainer.no_master_weights = pure_bf16 || pure_fp16 || block_wise || (!factory && type == at::kBFloat16);
}

}  // namespace hone::cli

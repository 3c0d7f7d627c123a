#include "hone/cli/configs/training/compute_config.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
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
  if (!idle.empty()) log::info("{}: {} changes nothing here", args.accelerator_config.flag(), fmt::join(idle, ", "));
}

}  // namespace hone::cli

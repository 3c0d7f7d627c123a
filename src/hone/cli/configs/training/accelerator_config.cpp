#include "hone/cli/configs/training/accelerator_config.h"

#include "hone/base/log.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/training.h"

namespace hone::cli {
namespace {

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

#include "hone/cli/configs/training/reference_config.h"

#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

void refuse_reference(const PreferenceArguments& args, std::string_view method) {
  for (const AnyArg& option : {AnyArg(args.ref_model), AnyArg(args.ref_adapters)})
    if (option.has_value())
      throw UserError(ExitCode::usage, fmt::format("{}: {} compares with no reference", option.flag(), method), "leave it out");
}

int64_t reference_bits(const PreferenceArguments& args) {
  if (!args.ref_model_quantization_bit.has_value()) return 0;
  auto bits = *args.ref_model_quantization_bit;
  if (bits != 4 && bits != 8)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.ref_model_quantization_bit.flag(), bits), "expected 4 or 8");
  return bits;
}

}  // namespace

void read_reference(const Options& options, bool needed, std::string_view method, train::TrainingJob& job) {
  const PreferenceArguments args(options);
  auto& reference = job.preference.reference;
  reference.needed = needed;
  if (!needed) return refuse_reference(args, method);
  auto adapters = *args.ref_adapters;
  if (adapters.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} adapters", args.ref_adapters.flag(), adapters.size()),
                    "expected one");
  for (const auto& adapter : adapters) reference.adapters.push_back(hub::locate_model(adapter));
  reference.bits = reference_bits(args);
  const PolicyGuidanceArguments guidance_args(options);
  if (*guidance_args.sync_ref_model)
    reference.sync = {.steps = *guidance_args.ref_model_sync_steps, .alpha = *guidance_args.ref_model_mixup_alpha};
  if (!args.ref_model.has_value()) return;
  reference.folder = hub::locate_model(*args.ref_model, *args.ref_model_revision);
  check_model_type(args.ref_model_type, reference.folder);
  const auto config = model::read_config(reference.folder);
  require_generative_model(reference.folder, config);
  auto own = model::read_config(job.model_folder, job.load.changes.config).vocab_size, other = config.vocab_size;
  if (own != other)
    throw UserError(ExitCode::usage,
                    fmt::format("{} has {} tokens in its vocabulary, the model {}", args.ref_model.flag(), other, own),
                    "a reference has the model's own vocabulary");
}

}  // namespace hone::cli

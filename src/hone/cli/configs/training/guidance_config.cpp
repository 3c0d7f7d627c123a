#include "hone/cli/configs/training/guidance_config.h"

#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/training/distillation_config.h"
#include "hone/train/validate.h"

namespace hone::cli {

using train::PolicyObjective;
using train::rl::ReinforcementConfig;

void read_policy_teacher(const Options& options, ReinforcementConfig& config) {
  const PolicyGuidanceArguments args(options);
  train::rl::PolicyTeacherConfig teacher{.teacher = read_teacher_names(options), .kl_coef = *args.teacher_kl_coef};
  if (args.advantage_reweight.has_value())
    teacher.reweight = {.lambda = *args.rlsd_lambda,
                        .clip_range = *args.rlsd_reweight_clip_range,
                        .warmup_steps = *args.rlsd_lambda_warmup_steps,
                        .decay_steps = *args.rlsd_lambda_decay_steps,
                        .negative_only = *args.rlsd_negative_only};
  teacher.in_loss = *args.sdar_loss_coef > 0;
  config.policy.sdar_coef = *args.sdar_loss_coef;
  config.policy.sdar_gate_beta = *args.sdar_gate_beta;
  // Rows may make the policy its own teacher if the loss supports per-token advantages.
  const bool asked = !teacher.is_policy() || teacher.reweight || teacher.in_loss;
  const auto objective = config.policy.objective;
  const bool by_sequence =
      objective == PolicyObjective::real || objective == PolicyObjective::fipo || config.policy.off_policy_mask_delta;
  if (!asked && by_sequence) return;
  config.teacher = std::move(teacher);
  train::validate(config);
  locate_teacher(options, config.teacher->teacher);
}

void read_demonstrations(const Options& options, ReinforcementConfig& config) {
  const PolicyGuidanceArguments args(options);
  if (!args.chord_sft_dataset.has_value()) return;
  for (const AnyArg& needed : {AnyArg(args.chord_sft_per_device_train_batch_size), AnyArg(args.chord_mu_warmup_steps),
                               AnyArg(args.chord_mu_decay_steps), AnyArg(args.chord_mu_peak), AnyArg(args.chord_mu_valley)})
    if (!needed.has_value())
      throw UserError(ExitCode::usage, fmt::format("{} is needed with {}", needed.flag(), args.chord_sft_dataset.flag()),
                      fmt::format("for example {} 2 {} 200 {} 400 {} 0.5 {} 0.02",
                                  args.chord_sft_per_device_train_batch_size.flag(), args.chord_mu_warmup_steps.flag(),
                                  args.chord_mu_decay_steps.flag(), args.chord_mu_peak.flag(), args.chord_mu_valley.flag()));
  config.demonstrations = {.datasets = *args.chord_sft_dataset,
                           .batch_size = *args.chord_sft_per_device_train_batch_size,
                           .warmup_steps = *args.chord_mu_warmup_steps,
                           .decay_steps = *args.chord_mu_decay_steps,
                           .mu_peak = *args.chord_mu_peak,
                           .mu_valley = *args.chord_mu_valley};
  config.policy.weighs_demonstrations = *args.chord_enable_phi_function;
}

}  // namespace hone::cli

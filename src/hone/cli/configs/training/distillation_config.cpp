#include "hone/cli/configs/training/distillation_config.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/cli/configs/training/turn_config.h"
#include "hone/hub/locate.h"
#include "hone/hub/post_json.h"
#include "hone/model/config.h"
#include "hone/train/validate.h"

namespace hone::cli {
namespace {

using train::DistillationConfig;

void read_server(const Options& options, DistillationConfig& config) {
  const DistillationArguments distillation_args(options);
  const RewardArguments reward_args(options);
  auto& teacher = config.teacher;
  teacher.server_timeout = *distillation_args.teacher_timeout;
  std::optional<hub::PostAddress> address;
  try {
    address = hub::read_address(teacher.server);
  } catch (const std::runtime_error& problem) {
    throw UserError(ExitCode::usage, problem.what());
  }
  if (!address)
    throw UserError(ExitCode::usage,
                    fmt::format("{} \"{}\" is no address", distillation_args.teacher_model_server.flag(), teacher.server),
                    "expected something like http://127.0.0.1:8000");
  if (!address->this_machine && !reward_args.remote_rewards)
    throw UserError(
        ExitCode::usage,
        fmt::format("the teacher {} is on another machine; prompts and completions would be sent there", address->shown),
        fmt::format("say that they may: {} true", reward_args.remote_rewards.flag()));
}

void read_model_of_teacher(const DistillationArguments& args, DistillationConfig& config) {
  auto& teacher = config.teacher;
  teacher.folder = hub::locate_model(*args.teacher_model, *args.teacher_model_revision);
  check_model_type(args.teacher_model_type, teacher.folder);
  for (const auto& adapter : *args.teacher_adapters) teacher.adapters.push_back(hub::locate_model(adapter));
  require_generative_model(teacher.folder, model::read_config(teacher.folder));
}

void read_teacher(const Options& options, DistillationConfig& config) {
  const DistillationArguments args(options);
  auto& teacher = config.teacher;
  teacher.folder = args.teacher_model.value_or("");
  teacher.server = args.teacher_model_server.value_or("");
  teacher.stored = args.teacher_logps.value_or("");
  config.topk = args.gkd_logits_topk.optional();
  config.seq_kd = *args.seq_kd;
  config.temperature = *GenerationArguments(options).temperature;
  validate(config);  // before a model is looked for
  if (!teacher.server.empty()) read_server(options, config);
  if (!teacher.folder.empty()) read_model_of_teacher(args, config);
}

void read_completions(const Options& options, train::TrainingJob& job, DistillationConfig& config) {
  config.lmbda = *DistillationArguments(options).lmbda;
  if (!config.generates()) return;
  train::rl::ReinforcementConfig rollouts;
  read_sampling(options, rollouts);
  config.sampling = rollouts.sampling;
  config.engine = rollouts.engine;
  config.servers = rollouts.servers;
  config.engine_sleeps = rollouts.engine_sleeps;
  config.log_completions = *GrpoArguments(options).log_completions;
  job.datasets.prompts_only = config.always_generates();
}

}  // namespace

void refuse_teacher(const Options& options, std::string_view method) {
  const DistillationArguments args(options);
  for (const auto& option : {args.teacher_model, args.teacher_model_server, args.teacher_logps})
    if (option.has_value())
      throw UserError(ExitCode::usage, fmt::format("{}: {} learns from no teacher", option.flag(), method),
                      fmt::format("leave it out, or distill with {} gkd", PreferenceArguments(options).rlhf_type.flag()));
}

void apply_distillation(const Options& options, train::TrainingJob& job) {
  refuse_turns(options, "gkd");
  auto& config = job.distillation.emplace();
  config.beta = *PreferenceArguments(options).beta;
  config.sft_alpha = *DistillationArguments(options).sft_alpha;
  read_teacher(options, config);
  read_completions(options, job, config);
}

}  // namespace hone::cli

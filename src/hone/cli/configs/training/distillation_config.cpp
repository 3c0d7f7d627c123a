#include "hone/cli/configs/training/distillation_config.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/hub/locate.h"
#include "hone/hub/post_json.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

using train::DistillationConfig;

void read_server(const Options& options, DistillationConfig& config) {
  const DistillationArguments distillation_args(options);
  const RewardArguments reward_args(options);
  auto& teacher = config.teacher;
  teacher.server = *distillation_args.teacher_model_server;
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
  for (const auto& adapter : *args.teacher_adapters) teacher.adapters.push_back(hub::locate_model(adapter));
  require_generative_model(teacher.folder, model::read_config(teacher.folder));
}

void read_teacher(const Options& options, DistillationConfig& config) {
  const DistillationArguments args(options);
  const bool server = args.teacher_model_server.has_value(), model = args.teacher_model.has_value();
  if (server && model)
    throw UserError(ExitCode::usage,
                    fmt::format("{} and {} name two teachers", args.teacher_model.flag(), args.teacher_model_server.flag()),
                    "leave one out");
  if (server) read_server(options, config);
  if (model) read_model_of_teacher(args, config);
  if (args.teacher_logps.has_value()) config.teacher.stored = *args.teacher_logps;
  if (!server && !model && config.teacher.stored.empty())
    throw UserError(ExitCode::usage, "gkd has no teacher",
                    fmt::format("name a model with {}, an address with {}, or what one said before with {}",
                                args.teacher_model.flag(), args.teacher_model_server.flag(), args.teacher_logps.flag()));
  if (args.gkd_logits_topk.has_value()) config.topk = *args.gkd_logits_topk;
  if (!config.topk && (server || !config.teacher.stored.empty()))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is needed: a server gives, and a folder keeps, the most likely tokens alone",
                                args.gkd_logits_topk.flag()),
                    "choose how many, 20 for example");
}

void read_completions(const Options& options, train::TrainingJob& job, DistillationConfig& config) {
  const DistillationArguments distillation_args(options);
  const GenerationArguments generation_args(options);
  config.lmbda = *distillation_args.lmbda;
  config.seq_kd = *distillation_args.seq_kd;
  config.temperature = *generation_args.temperature;
  if (!(config.temperature > 0))
    throw UserError(ExitCode::usage, fmt::format("{} is 0", generation_args.temperature.flag()), "expected a number above 0");
  if (!config.generates()) return;
  check_rollouts(options, job);
  train::rl::ReinforcementConfig rollouts;
  read_sampling(options, rollouts);
  config.sampling = rollouts.sampling;
  config.engine = rollouts.engine;
  config.servers = rollouts.servers;
  config.engine_sleeps = rollouts.engine_sleeps;
  config.log_completions = *GrpoArguments(options).log_completions;
  if (config.seq_kd && config.teacher.folder.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} lets the teacher generate, which needs a model", distillation_args.seq_kd.flag()),
                    fmt::format("name it with {}", distillation_args.teacher_model.flag()));
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
  const PreferenceArguments args(options);
  auto& config = job.distillation.emplace();
  read_teacher(options, config);
  read_completions(options, job, config);
  config.beta = *args.beta;
  config.sft_alpha = *DistillationArguments(options).sft_alpha;
  if (config.beta > 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.beta.flag(), config.beta),
                    "expected 0, forward KL, to 1, reverse KL");
  if (job.tuner.lora.init == "lora-ga")
    throw UserError(ExitCode::usage, "init_weights lora-ga starts from gradients before there is a teacher", "use pissa");
}

}  // namespace hone::cli

#include "hone/cli/configs/training/distillation_config.h"

#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/hub/locate.h"
#include "hone/hub/post_json.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

using train::DistillationConfig;

void read_server(const Options& options, DistillationConfig& config) {
  auto& teacher = config.teacher;
  teacher.server = options.text("teacher_model_server");
  teacher.server_timeout = options.real("teacher_timeout");
  std::optional<hub::PostAddress> address;
  try {
    address = hub::read_address(teacher.server);
  } catch (const std::runtime_error& problem) {
    throw UserError(ExitCode::usage, problem.what());
  }
  if (!address)
    throw UserError(ExitCode::usage,
                    fmt::format("{} \"{}\" is no address", options.display_name("teacher_model_server"), teacher.server),
                    "expected something like http://127.0.0.1:8000");
  if (!address->this_machine && !options.flag("remote_rewards"))
    throw UserError(
        ExitCode::usage,
        fmt::format("the teacher {} is on another machine; prompts and completions would be sent there", address->shown),
        fmt::format("say that they may: {} true", options.display_name("remote_rewards")));
}

void read_model_of_teacher(const Options& options, DistillationConfig& config) {
  auto& teacher = config.teacher;
  teacher.folder = hub::locate_model(options.text("teacher_model"), options.text("teacher_model_revision"));
  for (const auto& adapter : options.list("teacher_adapters")) teacher.adapters.push_back(hub::locate_model(adapter));
  require_generative_model(teacher.folder, model::read_config(teacher.folder));
}

void read_teacher(const Options& options, DistillationConfig& config) {
  const bool server = options.has("teacher_model_server"), model = options.has("teacher_model");
  if (server && model)
    throw UserError(ExitCode::usage,
                    fmt::format("{} and {} name two teachers", options.display_name("teacher_model"),
                                options.display_name("teacher_model_server")),
                    "leave one out");
  if (server) read_server(options, config);
  if (model) read_model_of_teacher(options, config);
  if (options.has("teacher_logps")) config.teacher.stored = options.text("teacher_logps");
  if (!server && !model && config.teacher.stored.empty())
    throw UserError(ExitCode::usage, "gkd has no teacher",
                    fmt::format("name a model with {}, an address with {}, or what one said before with {}",
                                options.display_name("teacher_model"), options.display_name("teacher_model_server"),
                                options.display_name("teacher_logps")));
  if (options.has("gkd_logits_topk")) config.topk = options.integer("gkd_logits_topk");
  if (!config.topk && (server || !config.teacher.stored.empty()))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is needed: a server gives, and a folder keeps, the most likely tokens alone",
                                options.display_name("gkd_logits_topk")),
                    "choose how many, 20 for example");
}

void read_completions(const Options& options, train::TrainingJob& job, DistillationConfig& config) {
  config.lmbda = options.real("lmbda");
  config.seq_kd = options.flag("seq_kd");
  config.temperature = options.real("temperature");
  if (!(config.temperature > 0))
    throw UserError(ExitCode::usage, fmt::format("{} is 0", options.display_name("temperature")), "expected a number above 0");
  if (!config.generates()) return;
  check_rollouts(options, job);
  train::rl::ReinforcementConfig rollouts;
  read_sampling(options, rollouts);
  config.sampling = rollouts.sampling;
  config.engine = rollouts.engine;
  config.engine_sleeps = rollouts.engine_sleeps;
  config.log_completions = options.flag("log_completions");
  if (config.seq_kd && config.teacher.folder.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} lets the teacher generate, which needs a model", options.display_name("seq_kd")),
                    fmt::format("name it with {}", options.display_name("teacher_model")));
  job.datasets.prompts_only = config.always_generates();
}

}  // namespace

void refuse_teacher(const Options& options, std::string_view method) {
  for (const char* option : {"teacher_model", "teacher_model_server", "teacher_logps"})
    if (options.has_option(option) && options.has(option))
      throw UserError(ExitCode::usage, fmt::format("{}: {} learns from no teacher", options.display_name(option), method),
                      fmt::format("leave it out, or distill with {} gkd", options.display_name("rlhf_type")));
}

void apply_distillation(const Options& options, train::TrainingJob& job) {
  auto& config = job.distillation.emplace();
  read_teacher(options, config);
  read_completions(options, job, config);
  config.beta = options.real("beta");
  config.sft_alpha = options.real("sft_alpha");
  if (config.beta > 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("beta"), config.beta),
                    "expected 0, forward KL, to 1, reverse KL");
  if (job.tuner.lora.init == "lora-ga")
    throw UserError(ExitCode::usage, "init_weights lora-ga starts from gradients before there is a teacher", "use pissa");
}

}  // namespace hone::cli

#include "hone/cli/configs/training/distillation_config.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/hub/locate.h"
#include "hone/hub/post_json.h"
#include "hone/model/config.h"
#include "hone/train/validate.h"

namespace hone::cli {
namespace {

using train::DistillationConfig;

// One URL, or ms-swift's list of several: [{"url": "http://127.0.0.1:8000", "tags": ["math"]}, …].
std::vector<train::TeacherServer> teacher_servers(const DistillationArguments& args) {
  const auto text = args.teacher_model_server.value_or("");
  if (text.empty()) return {};
  if (!text.starts_with('[')) return {{.address = text}};
  std::vector<train::TeacherServer> servers;
  const auto list = parse_json(text);
  const auto misread = [&] {
    return UserError(ExitCode::usage, fmt::format("{}: this list is not understood", args.teacher_model_server.flag()),
                     "expected [{\"url\": \"http://127.0.0.1:8000\", \"tags\": [\"math\"]}, …]");
  };
  if (!list || list->empty()) throw misread();
  for (const auto& each : *list) {
    if (!each.is_object() || !each.contains("url") || !each["url"].is_string()) throw misread();
    auto& server = servers.emplace_back(train::TeacherServer{.address = each["url"].get<std::string>()});
    const auto tags = each.value("tags", Json::array());
    if (!tags.is_array()) throw misread();
    for (const auto& tag : tags) server.tags.push_back(tag.is_string() ? tag.get<std::string>() : tag.dump());
  }
  return servers;
}

void check_address(const Options& options, const std::string& server) {
  const DistillationArguments distillation_args(options);
  const RewardArguments reward_args(options);
  std::optional<hub::PostAddress> address;
  try {
    address = hub::read_address(server);
  } catch (const std::runtime_error& problem) {
    throw UserError(ExitCode::usage, problem.what());
  }
  if (!address)
    throw UserError(ExitCode::usage,
                    fmt::format("{} \"{}\" is not an address", distillation_args.teacher_model_server.flag(), server),
                    "expected something like http://127.0.0.1:8000");
  if (!address->this_machine && !reward_args.remote_rewards)
    throw UserError(
        ExitCode::usage,
        fmt::format("the teacher {} is on another machine; prompts and completions would be sent there", address->shown),
        fmt::format("to allow it, set {} true", reward_args.remote_rewards.flag()));
}

void read_teacher(const Options& options, DistillationConfig& config) {
  const DistillationArguments args(options);
  config.teacher = read_teacher_names(options);
  config.teacher.stored = args.teacher_logps.value_or("");
  config.topk = args.gkd_logits_topk.optional();
  config.seq_kd = *args.seq_kd;
  config.temperature = *GenerationArguments(options).temperature;
  config.lmbda = *args.lmbda;
  validate(config);  // before locating a model
  locate_teacher(options, config.teacher);
}

void read_completions(const Options& options, train::TrainingJob& job, DistillationConfig& config) {
  if (!config.generates()) return refuse_turns(options, "gkd that generates nothing");
  train::rl::ReinforcementConfig rollouts;
  read_sampling(options, rollouts);
  config.sampling = rollouts.sampling;
  config.engine = rollouts.engine;
  config.servers = rollouts.servers;
  config.engine_sleeps = rollouts.engine_sleeps;
  read_turns(options, rollouts);
  config.turns = rollouts.turns;
  config.log_completions = *GrpoArguments(options).log_completions;
  job.datasets.prompts_only = config.always_generates();
}

}  // namespace

train::TeacherConfig read_teacher_names(const Options& options) {
  const DistillationArguments args(options);
  train::TeacherConfig teacher{.folder = args.teacher_model.value_or(""),
                               .adapters = {},
                               .servers = teacher_servers(args),
                               .tag_key = *args.teacher_tag_key,
                               .server_timeout = *args.teacher_timeout,
                               .stored = {}};
  for (const auto& server : teacher.servers) check_address(options, server.address);
  return teacher;
}

void locate_teacher(const Options& options, train::TeacherConfig& teacher) {
  if (teacher.folder.empty()) return;
  const DistillationArguments args(options);
  teacher.folder = hub::locate_model(*args.teacher_model, *args.teacher_model_revision);
  check_model_type(args.teacher_model_type, teacher.folder);
  for (const auto& adapter : *args.teacher_adapters) teacher.adapters.push_back(hub::locate_model(adapter));
  require_generative_model(teacher.folder, model::read_config(teacher.folder));
}

void refuse_teacher(const Options& options, std::string_view method) {
  const DistillationArguments args(options);
  for (const auto& option : {args.teacher_model, args.teacher_model_server, args.teacher_logps})
    if (option.has_value())
      throw UserError(ExitCode::usage, fmt::format("{}: {} learns from no teacher", option.flag(), method),
                      fmt::format("leave it out, or distill with {} gkd", PreferenceArguments(options).rlhf_type.flag()));
}

void apply_distillation(const Options& options, train::TrainingJob& job) {
  auto& config = job.distillation.emplace();
  config.beta = *PreferenceArguments(options).beta;
  config.sft_alpha = *DistillationArguments(options).sft_alpha;
  read_teacher(options, config);
  read_completions(options, job, config);
}

}  // namespace hone::cli

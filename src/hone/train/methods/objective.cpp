#include "hone/train/methods/objective.h"

#include "hone/base/log.h"
#include "hone/train/checkpoints/checkpoint.h"

namespace hone::train {

// Plain fine-tuning has no settings that change its objective.
Json objective(const TrainingJob& job) {
  Json settings{{"method", job.stage}};
  if (job.preference.method == Preference::none && !job.reinforcement && !job.distillation) return settings;
  for (const auto* name : {"loss_type", "loss_weights", "beta"})
    if (job.args.contains(name)) settings[name] = job.args[name];
  return settings;
}

void require_same_objective(const fs::path& checkpoint, const Json& now) {
  auto file = checkpoint / kStateFile;
  if (!fs::exists(file)) return;
  const auto kept = read_config_file(file.string()).value("objective", Json::object());
  for (const auto& [name, before] : kept.items()) {
    if (!now.contains(name) || now[name] == before) continue;
    auto change = fmt::format("{} was {} and is now {}", name, before.dump(), now[name].dump());
    if (name != "beta")
      throw UserError(
          ExitCode::bad_checkpoint, fmt::format("{} was trained with another objective: {}", checkpoint.string(), change),
          "resume with the settings of the first run, or begin a new run with the checkpoint as its `model` or `adapters`");
    log::warning("{}: {}", checkpoint.string(), change);
  }
}

void require_same_optimizer(const fs::path& checkpoint, const TrainingJob& job) {
  auto file = checkpoint / kStateFile;
  if (!fs::exists(file)) return;
  const auto kept = read_config_file(file.string()).value("optimizer", Json());
  const auto saved = kept.is_string() ? kept.get<std::string>() : "";  // earlier versions stored no name
  if (saved.empty() || optim::share_state(saved, job.optimizer.name)) return;
  throw UserError(
      ExitCode::bad_checkpoint,
      fmt::format("`optim` is {}, and {} holds the state of {}", job.optimizer.name, checkpoint.string(), saved),
      fmt::format("resume with `optim` {}, or {}", saved,
                  job.trainer.layout == Layout::swift ? "start with a new state: `resume_only_model` true"
                                                      : "begin a new run with the checkpoint as its `model` or `adapters`"));
}

}  // namespace hone::train

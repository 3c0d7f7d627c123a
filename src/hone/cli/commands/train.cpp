// sft, pt, train: from resolved options to a training run, on one or several processes.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/commands.h"
#include "hone/cli/commands/ray_submit.h"
#include "hone/cli/configs/training/compute_config.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/cli/configs/training/training_config.h"
#include "hone/cli/parsing/resolve_auto.h"
#include "hone/io/newest_checkpoint.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

// The arguments of this process, with which its ranks are started.
std::vector<std::string> own_command() {
  auto bytes = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (size_t begin = 0, end; begin < bytes.size(); begin = end + 1) {
    end = bytes.find('\0', begin);
    words.push_back(bytes.substr(begin, end - begin));
  }
  return words;
}

// Once, instead of once per rank.
void check_layout_before_launch(const train::TrainingJob& job, const parallel::LaunchConfig& launch) {
  if (launch.min_nodes > 0 || job.load.changes.block_stride > 0) return;  // sizes are known later
  parallel::World world;
  world.size = launch.processes * launch.nodes;
  world.local_size = launch.processes;
  train::check_layout(job.parallel, model::read_config(job.model_folder, job.load.changes.config), world);
}

// After a rank was lost. Checkpoints do not depend on the layout, so fewer ranks can continue.
void show_how_to_resume(const Options& options, const parallel::LaunchResult& ending) {
  static constexpr ExitCode kEnds[] = {ExitCode::ok, ExitCode::usage, ExitCode::bad_data, ExitCode::bad_checkpoint};
  if (ending.run.empty() || std::ranges::count(kEnds, static_cast<ExitCode>(ending.code)) > 0) return;
  if (const auto newest = io::newest_checkpoint_in(ending.run))
    log::info("resume: the same command with {} {}, on this or another number of processes, in this or another layout",
              TrainingArguments(options).resume_from_checkpoint.flag(), newest->string());
  else
    log::info("{} has no checkpoint yet: start the command again", ending.run);
}

}  // namespace

int train_command(const Options& options) {
  auto job = training_job(options);  // reports errors before starting any process
  if (auto ray = ray_submission(options)) {
    ray->push_back("--");
    for (const auto& word : own_command()) ray->push_back(word);
    submit_to_ray(*ray);
  }
  set_process_switches(options);
  auto launch = launch_of(options);
  int restarts = static_cast<int>(*DistributedArguments(options).max_restarts);
  job.chosen = describe_auto_values(options);
  bool many = launch.processes > 1 || launch.nodes > 1 || (launch.processes == 1 && restarts > 0);
  if (parallel::is_launched_externally() || !many) return train::run_training(job);
  check_layout_before_launch(job, launch);
  log::info("starting {} processes on this node, {} in all", launch.processes, launch.processes * launch.nodes);
  auto ending = parallel::supervise({.launch = launch, .command = own_command(), .max_restarts = restarts});
  bool stopped = ending.code == static_cast<int>(ExitCode::preempted) || ending.code == static_cast<int>(ExitCode::interrupted);
  if (launch.node_rank == 0 && !stopped) show_how_to_resume(options, ending);
  if (launch.node_rank == 0 && !ending.run.empty())
    train::send_run_notification(job.trainer.swanlab, ending.run, train::display_name(job),
                                 stopped ? train::describe_exit_code(ending.code) : ending.why);
  return ending.code;
}

}  // namespace hone::cli

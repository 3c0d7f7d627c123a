// sft, pt, train: from the resolved options to a run of the trainer, on as many processes as were asked for.
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/commands.h"
#include "hone/cli/jobs/parallel_job.h"
#include "hone/cli/jobs/training_job.h"
#include "hone/cli/parse.h"

namespace hone::cli {
namespace {

// The words this process was started with, so that its ranks can be started with the same.
std::vector<std::string> own_command() {
  auto bytes = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (size_t begin = 0, end; begin < bytes.size(); begin = end + 1) {
    end = bytes.find('\0', begin);
    words.push_back(bytes.substr(begin, end - begin));
  }
  return words;
}

}  // namespace

int train_command(const Options& options) {
  auto job = training_job(options);  // mistakes show before any process is started
  auto launch = launch_of(options);
  int restarts = static_cast<int>(options.integer("max_restarts"));
  job.chosen = automatic_values(options);
  bool many = launch.processes > 1 || launch.nodes > 1 || (launch.processes == 1 && restarts > 0);
  if (parallel::is_placed() || !many) return train::run_training(job);
  log::info("starting {} processes on this node, {} in all", launch.processes, launch.processes * launch.nodes);
  auto ending = parallel::supervise({.launch = launch, .command = own_command(), .max_restarts = restarts});
  bool stopped = ending.code == static_cast<int>(ExitCode::preempted) || ending.code == static_cast<int>(ExitCode::interrupted);
  if (launch.node_rank == 0 && !ending.run.empty())
    train::tell_people(job.trainer.swanlab, ending.run, train::spoken_name(job), stopped ? train::cause_of(ending.code) : ending.why);
  return ending.code;
}

}  // namespace hone::cli

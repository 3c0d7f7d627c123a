// sft, pt, train: from the resolved options to a run of the trainer, on as many processes as were asked for.
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/commands.h"
#include "hone/cli/jobs/training_job.h"
#include "hone/parallel/supervisor.h"

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

bool asks_for_launch(const parallel::Launch& launch) {
  return !std::getenv("WORLD_SIZE") && !parallel::is_supervised() && (launch.processes > 1 || launch.nodes > 1);
}

}  // namespace

int train_command(const Options& options) {
  auto job = training_job(options);  // mistakes show before any process is started
  auto launch = parallel::launch_from_environment();
  if (!asks_for_launch(launch)) return train::run_training(job);
  log::info("starting {} processes on this node, {} in all", launch.processes, launch.processes * launch.nodes);
  return parallel::supervise({.launch = launch, .command = own_command()});
}

}  // namespace hone::cli

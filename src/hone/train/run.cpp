#include "hone/train/run.h"

#include "hone/base/config_error.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/device/device.h"
#include "hone/device/memory.h"
#include "hone/parallel/launch/supervisor.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/loaded_model.h"
#include "hone/train/reports/run_log.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/tools/toolbox.h"
#include "hone/train/session.h"
#include "hone/train/validate.h"

namespace hone::train {
namespace {

int exit_code(const RunResult& finished) {
  if (!finished.kept()) return static_cast<int>(ExitCode::out_of_space);
  switch (finished.outcome) {
    case Outcome::preempted:
      return static_cast<int>(ExitCode::preempted);
    case Outcome::interrupted:
      return static_cast<int>(ExitCode::interrupted);
    default:
      return static_cast<int>(ExitCode::ok);
  }
}

// A teacher that generates or scores elsewhere does not support several processes that compute the same rows.
void check_model_parts(const TrainingJob& job, const DistributedContext& processes) {
  const auto& sft = job.sft;
  const bool teacher_writes = job.distillation && (job.distillation->seq_kd || !job.distillation->teacher.stored.empty());
  const std::pair<bool, const char*> missing_layers[] = {
      {sft.asft.has_value(), "use_asft_loss"},
      {job.shifted_attention, "shift_attn"},
  };
  const std::pair<bool, const char*> missing[] = {
      {!job.load.device_map.empty(), "device_map"},
      {job.trainer.find_batch_size, "auto_find_batch_size"},
  };
  const std::pair<bool, const char*> missing_same_rows[] = {
      {job.reinforcement && job.reinforcement->turns && job.reinforcement->async_lag > 0,
       "rollouts of several turns that are generated ahead (async_generate)"},
      {teacher_writes, "seq_kd, and a folder of a teacher's scores"},
  };
  const std::pair<bool, const char*> missing_stages[] = {
      {sft.asft.has_value(), "use_asft_loss"},
  };
  auto refuse = [&](const char* setting, const auto& list) {
    for (const auto& [asked, what] : list)
      if (asked)
        throw UserError(ExitCode::usage, fmt::format("{} with {}, which it does not support", setting, what),
                        processes.mesh.size("cp") > 1 || job.parallel.sequence_parallel > 1
                            ? "leave one of them out"
                            : "leave one of them out, or shard parameters with `deepspeed` zero3");
  };
  const char* of_experts = job.parallel.layout.ep > 1 ? "expert_parallel_size is above 1"
                                                      : "expert_tensor_parallel_size differs from tensor_parallel_size";
  const char* setting = processes.tensor                     ? "tensor_parallel_size is above 1"
                        : processes.stages                   ? "pipeline_parallel_size is above 1"
                        : processes.mesh.size("cp") > 1      ? "context_parallel_size is above 1"
                        : job.parallel.sequence_parallel > 1 ? "sequence_parallel_size is above 1"
                                                             : of_experts;
  if (processes.tensor) refuse(setting, missing_layers);
  if (processes.stages) refuse("pipeline_parallel_size is above 1", missing_stages);
  if (processes.same_rows) refuse(setting, missing_same_rows);
  if (processes.is_tensor_or_expert_parallel() || processes.stages) refuse(setting, missing);
}

// Checks that need the process group.
void validate_processes(const TrainingJob& job, const DistributedContext& processes) {
  if (processes.shards_model() || processes.is_tensor_or_expert_parallel()) require_elementwise(job.optimizer.name);
  if (processes.is_tensor_or_expert_parallel() || processes.same_rows) check_model_parts(job, processes);
  require(!processes.shards_model() || job.tuner.method != "ADALORA",
          "AdaLoRA needs unsharded matrices, which are sharded over processes here", "leave `deepspeed` and `fsdp` out");
  if (!processes.world.distributed()) return;
  require(job.optimizer.name != "badam",
          "BAdam switches the trained layer during the run, which several processes do not support",
          "train in one process, or use adamw_torch");
  require(!job.load.changes.experts_on_host || job.load.device.is_cpu(),
          "`use_kt` keeps experts in the memory of one process, and there are several", "train in one process");
  require(!job.trainer.find_batch_size, "auto_find_batch_size supports one process only", "set `micro_batch_size`");
}

// Scripts find the checkpoints of a run of ms-swift by these lines of its log.
void announce_checkpoints(const RunResult& finished) {
  const auto& state = finished.state;
  if (finished.layout != Layout::swift) return;
  if (!state.last_model_checkpoint.empty()) log::info("last_model_checkpoint: {}", state.last_model_checkpoint);
  if (!state.best_model_checkpoint.empty()) log::info("best_model_checkpoint: {}", state.best_model_checkpoint);
}

// One attempt. `folder` is set as soon as the run's folder is known.
int attempt(const TrainingJob& job, const DistributedContext& processes, fs::path& folder) {
  TrainingSession session(job, processes);
  folder = session.folder();
  bool main = processes.world.is_main();
  if (main && !job.chosen.empty()) log::info("auto: {}", job.chosen);
  if (main && !job.args.empty() && job.trainer.layout == Layout::swift) write_args(folder, job.args);
  try {
    session.load_models();
    std::optional<RunResult> finished;
    if (job.do_train) finished = session.train();
    if (!finished || finished->complete()) session.evaluate(finished ? &*finished : nullptr);
    if (main && finished) {
      announce_checkpoints(*finished);
      fmt::print("\n{}", final_summary(*finished, job.commands.next));
    }
    return finished ? exit_code(*finished) : static_cast<int>(ExitCode::ok);
  } catch (const c10::OutOfMemoryError& error) {
    auto use = device::memory_use(job.load.device);
    throw UserError(
        ExitCode::out_of_memory,
        fmt::format("{} ran out of memory ({} in use at the peak, {} in all)", device::describe(job.load.device),
                    format_bytes(static_cast<double>(use.peak)), format_bytes(static_cast<double>(use.total))),
        "lower the batch size or `max_length`, raise `gradient_accumulation_steps`, or add `gradient_checkpointing` true");
  }
}

// The batch size per device if a global batch size is given.
int64_t split_batch(int64_t whole, int processes) {
  if (whole % processes != 0)
    throw UserError(
        ExitCode::usage, fmt::format("batches of {} do not split over {} processes", whole, processes),
        "with split_batches, per_device batch sizes are those of all processes together: choose a multiple of their number");
  return whole / processes;
}

TrainingJob with_split_batches(TrainingJob job, int processes) {
  job.loader.batch_size = job.trainer.micro_batch_size = split_batch(job.loader.batch_size, processes);
  job.eval_loader.batch_size = std::max<int64_t>(1, job.eval_loader.batch_size / processes);  // no result depends on it
  return job;
}

int attempts(const TrainingJob& job, const DistributedContext& processes, fs::path& folder) {
  auto smaller = job;
  for (;;) {
    try {
      return attempt(smaller, processes, folder);
    } catch (const UserError& problem) {
      if (!job.trainer.find_batch_size || problem.code() != ExitCode::out_of_memory || smaller.loader.batch_size == 1) throw;
    }
    smaller.loader.batch_size /= 2;
    smaller.trainer.micro_batch_size = smaller.loader.batch_size;
    smaller.trainer.continue_run = folder;
    device::empty_cache(job.load.device);
    log::warning("out of memory: retrying with `per_device_train_batch_size` {}", smaller.loader.batch_size);
  }
}

}  // namespace

int64_t expected_row_length(const TrainingJob& job) {
  constexpr int64_t kUsualLength = 2048;
  return job.loader.packing_length > 0 ? job.loader.packing_length
         : job.encode.max_length > 0   ? job.encode.max_length
                                       : kUsualLength;
}

std::string display_name(const TrainingJob& job) { return fmt::format("{} of {}", job.stage, job.model_name); }

int run_training(const TrainingJob& job) {
  if (job.load.device.is_cpu()) device::enable_cpu_caching_allocator();
  validate(job);
  auto processes = DistributedContext::join(job.parallel, job.args, job.load.device);
  validate_processes(job, processes);
  if (job.reinforcement && job.do_train && processes.world.is_main()) {
    rl::probe_rewards(job.reinforcement->rewards);
    if (job.reinforcement->turns) rl::probe_tools(job.reinforcement->turns->tools);
  }
  if (job.distillation && job.distillation->turns && job.do_train && processes.world.is_main())
    rl::probe_tools(job.distillation->turns->tools);
  fs::path folder;
  // The supervisor notifies for its ranks, since it outlives them; before a folder exists, no notification is sent.
  auto tell = [&](const std::string& error) {
    if (processes.world.is_main() && !parallel::is_supervised() && !folder.empty())
      send_run_notification(job.trainer.swanlab, folder, display_name(job), error);
  };
  std::error_code ignored;
  const bool is_new = !fs::exists(job.trainer.output_dir, ignored);
  try {
    int code = attempts(job.split_batches ? with_split_batches(job, processes.data_size()) : job, processes, folder);
    tell(describe_exit_code(code));
    return code;
  } catch (const std::exception& problem) {
    tell(problem.what());
    if (processes.world.is_main()) {
      discard_unused(job.trainer, folder);
      if (is_new) fs::remove(job.trainer.output_dir, ignored);  // if nothing was written into it
    }
    throw;
  }
}

}  // namespace hone::train

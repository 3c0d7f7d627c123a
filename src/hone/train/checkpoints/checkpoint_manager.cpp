#include "hone/train/checkpoints/checkpoint_manager.h"

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/device/generator.h"
#include "hone/io/safetensors.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/checkpoints/saved_state.h"

namespace hone::train {
namespace {

constexpr int64_t kFailedSavesToStop = 3;

// A shard is half-written while its tensors are read: a fault point for tests.
io::TensorSource source_of(std::string name, const Tensor& tensor) {
  auto source = io::TensorSource::of(std::move(name), tensor);
  source.load = [tensor] {
    fault("checkpoint.mid_shard");
    return tensor;
  };
  return source;
}

// The size estimate is our own last save; a new run has none and finds out by writing.
void require_space(const fs::path& run_folder, const std::string& last_checkpoint) {
  std::error_code status;
  uintmax_t needed = 0;
  if (last_checkpoint.empty() || !fs::is_directory(last_checkpoint, status)) return;
  for (const auto& entry : fs::directory_iterator(last_checkpoint, status))
    if (entry.is_regular_file()) needed += entry.file_size();
  auto space = fs::space(run_folder, status);
  if (!status && space.available < needed + needed / 20)
    throw std::system_error(ENOSPC, std::generic_category(), fmt::format("{} bytes needed, {} free", needed, space.available));
}

// Before the rest: the number of optimizer steps decides which tensors its state contains (BAdam's belongs to one layer).
void read_counters(optim::Optimizer& optimizer, const SavedState& saved) {
  optimizer.visit_state([&](const std::string& name, Tensor& tensor) {
    if (tensor.dim() > 0) return;
    if (auto found = saved.read("optimizer/", {{name, tensor}}); !found.empty()) tensor.copy_(found.front().second);
  });
}

// Runs the work locally and synchronizes the result: a failure on one process is a failure on all, so that none waits forever.
class Agreement {
 public:
  explicit Agreement(ParallelStrategy& group) : group_(group) {}
  bool operator()(const std::function<void()>& work) {
    try {
      work();
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& cause) {
      failure_ = cause.what();
    }
    bool well = group_.sum(failure_.empty() ? 0 : 1) == 0;
    if (!well && failure_.empty()) failure_ = "another process could not write its part";
    return well;
  }
  const std::string& failure() const { return failure_; }

 private:
  ParallelStrategy& group_;
  std::string failure_;
};

}  // namespace

// One process's part of a checkpoint. Nothing in it changes any more, unless the training thread also writes it.
struct CheckpointManager::Content {
  fs::path staging;
  std::shared_ptr<CheckpointWriter> writer;             // on the first process, or on the first of every node
  std::function<void(const fs::path& folder)> weights;  // empty: already written
  std::string position, summary, best;
  std::vector<io::TensorSource> tensors;
};

void CheckpointManager::begin(const TrainState& state) {
  HONE_CHECK(!pending_, "two saves at a time");
  auto saved = state;
  pending_.emplace(PendingSave{
      state.global_step, run_.root / checkpoint_name(state.global_step), state.best_global_step == state.global_step, {}});
  saved.last_model_checkpoint = pending_->folder.string();
  if (pending_->best) saved.best_model_checkpoint = saved.last_model_checkpoint;
  saved.failed_saves_in_a_row = 0;
  auto content = std::make_shared<Content>();
  auto failure = stage(saved, state.last_model_checkpoint, *content);
  pending_->failure = std::async(config_.async_save ? std::launch::async : std::launch::deferred,
                                 [this, content, failure] { return failure.empty() ? write(*content) : failure; });
}

bool CheckpointManager::written() const {
  return pending_ && pending_->failure.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool CheckpointManager::wait(TrainState& state) {
  if (!pending_) return false;
  auto done = std::move(*pending_);
  pending_.reset();
  auto failure = done.failure.get();
  if (failure.empty()) {
    saved_ = done.step;
    state.last_model_checkpoint = done.folder.string();
    if (done.best) state.best_model_checkpoint = done.folder.string();
    state.failed_saves_in_a_row = 0;
    return true;
  }
  ++state.failed_saves;
  log::error("{} was not saved: {}. Training continues; older checkpoints are untouched", done.folder.string(), failure);
  if (++state.failed_saves_in_a_row < kFailedSavesToStop) return false;
  throw UserError(ExitCode::out_of_space, fmt::format("{} saves in a row failed, the last with: {}", kFailedSavesToStop, failure),
                  fmt::format("free space under {} and continue from the newest checkpoint there", run_.root.string()));
}

// Everything that must happen while training is paused. Returns the error, if any.
std::string CheckpointManager::stage(const TrainState& state, const std::string& last_checkpoint, Content& content) {
  content.staging = CheckpointWriter::staging_folder(run_.root, state.global_step, run_.run_id);
  auto open = [&] {
    if (!writes_folder()) return;
    Manifest head{.run_id = run_.run_id,
                  .trains_on = run_.trains_on,
                  .step = state.global_step,
                  .processes = resumable_.strategy.size(),
                  .weights_alone = config_.save_only_model,
                  .files = {}};
    content.writer = std::make_shared<CheckpointWriter>(run_.root, std::move(head), config_.overwrite_output_dir);
  };
  bool now = !config_.async_save || !weights_.copy;
  auto write_now = [&] { content.writer->part(weights_.save); };
  auto save_weights = [&] {
    if (!now && is_main())
      content.weights = weights_.copy();
    else if (now && weights_.gather)
      weights_.gather(write_now);
    else if (now && is_main())
      write_now();
  };
  Agreement agreement(resumable_.strategy);
  if (agreement([&] { require_space(run_.root, last_checkpoint); }) && agreement(open) && agreement(save_weights))
    agreement([&] { collect(state, content); });
  return agreement.failure();
}

void CheckpointManager::collect(const TrainState& state, Content& content) {
  content.summary = state.to_transformers(config_).dump(2);
  content.best = state.best_model_checkpoint;
  content.position = Json{{"schema", kCheckpointSchema},
                          {"processes", resumable_.strategy.size()},
                          {"train", state.to_json()},
                          {"data_order", run_.data_order},
                          {"objective", run_.objective},
                          {"optimizer", run_.optimizer},
                          {"loader", resumable_.loader.state()},
                          {"schedule", resumable_.lr_scheduler.state()},
                          {"loss_scale", resumable_.grad_scaler.state()}}
                         .dump(1);
  if (config_.save_only_model) return;
  auto add = [&](std::string name, const Tensor& tensor) {
    content.tensors.push_back(source_of(
        std::move(name), config_.async_save ? tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true) : tensor));
  };
  if (resumable_.strategy.owns_state()) {
    for (const auto& [name, tensor] : resumable_.optimizer.state())
      if (resumable_.strategy.owns_state_of(name)) add("optimizer/" + name, tensor);
    for (const auto& [name, tensor] : resumable_.masters.state())
      if (resumable_.strategy.owns_state_of(name)) add("master/" + name, tensor);
  }
  add("random/cpu", device::default_generator(at::kCPU).get_state());
  if (!resumable_.device.is_cpu()) add("random/device", device::default_generator(resumable_.device).get_state());
}

// The rest, on any thread. Returns the error, if any.
std::string CheckpointManager::write(Content& content) {
  const int rank = resumable_.save_group.rank();
  auto write_shared = [&] {
    if (!is_main()) return;
    if (content.weights) content.writer->part(content.weights);
    if (weights_.save_assets) content.writer->part(weights_.save_assets);
    content.writer->part(
        [&](const fs::path& staging) { write_file_atomically(staging / "trainer_state.json", content.summary); });
  };
  auto write_own = [&] {
    fault("checkpoint.write");
    write_file_atomically(content.staging / state_name(rank, "json"), content.position);
    if (!content.tensors.empty()) io::write_safetensors(content.staging / state_name(rank, "safetensors"), content.tensors);
  };
  auto share = [&] {
    if (resumable_.replicator) resumable_.replicator->replicate(content.staging, NodeReplicator::Depth::all_below);
  };
  fs::path folder;
  auto commit = [&] {
    if (writes_folder()) folder = content.writer->commit();
  };
  Agreement agreement(resumable_.save_group);
  if (agreement(write_shared) && agreement(write_own) && agreement(share) && agreement(commit) && writes_folder())
    publish(folder, content.best);
  content = {};  // copies are large, and an unfinished folder is removed now
  return agreement.failure();
}

void CheckpointManager::publish(const fs::path& folder, const std::string& best) {
  log::info("saved {}", folder.string());
  if (config_.checkpoint_links) {
    point_link(run_, "last", folder);
    if (!best.empty()) point_link(run_, "best", best);
  }
  if (config_.save_total_limit) retain_checkpoints(run_.root, run_.run_id, *config_.save_total_limit, {folder, best});
}

TrainState CheckpointManager::restore(const fs::path& checkpoint) {
  weights_.load(checkpoint);
  resumable_.masters.reload_from_model();
  int rank = resumable_.strategy.rank();
  if (!fs::exists(checkpoint / state_name(0, "json"))) return {};  // another program's checkpoint: only its weights are used
  auto position = read_config_file((checkpoint / state_name(0, "json")).string());
  bool weights_alone = config_.resume_only_model && config_.ignore_data_skip;
  if (weights_alone) return {};
  int wrote = position.at("processes").get<int>();
  bool same_processes = wrote == resumable_.strategy.size();
  if (same_processes && rank > 0) position = read_config_file((checkpoint / state_name(rank, "json")).string());
  if (!same_processes && !config_.ignore_data_skip && !resumable_.loader.can_reshard_state(position.at("loader")))
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{} was written by {} processes that read streams; {} are running", checkpoint.string(), wrote,
                                resumable_.strategy.size()),
                    "start as many, or restart the data with `ignore_data_skip` true");
  if (!config_.ignore_data_skip) resumable_.loader.restore(position.at("loader"));
  auto state = TrainState::from_json(position.at("train"));
  saved_ = state.global_step;
  if (config_.resume_only_model) return state;
  if (!fs::exists(checkpoint / state_name(0, "safetensors")))
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} contains only weights (save_only_model)", checkpoint.string()),
                    "add `resume_only_model` true to resume with a new optimizer");
  SavedState saved(checkpoint, wrote);
  read_counters(resumable_.optimizer, saved);
  resumable_.optimizer.load_state(saved.read("optimizer/", resumable_.optimizer.state()));
  resumable_.masters.load_state(saved.read("master/", resumable_.masters.state()));
  resumable_.masters.copy_to_model();
  resumable_.strategy.after_update();
  resumable_.lr_scheduler.load_state(position.at("schedule"));
  resumable_.grad_scaler.restore(position.at("loss_scale"));
  if (!same_processes) return state;  // no random state fits this process: it keeps its own
  io::SafetensorsFile own(checkpoint / state_name(rank, "safetensors"));
  device::default_generator(at::kCPU).set_state(own.tensor("random/cpu").clone());
  if (!resumable_.device.is_cpu() && own.contains("random/device"))
    device::default_generator(resumable_.device).set_state(own.tensor("random/device").clone());
  return state;
}

}  // namespace hone::train

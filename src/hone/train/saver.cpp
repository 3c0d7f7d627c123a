#include "hone/train/saver.h"

#include "hone/base/fault.h"
#include "hone/base/log.h"
#include "hone/io/safetensors.h"
#include "hone/train/checkpoint.h"
#include "hone/train/saved_state.h"

namespace hone::train {
namespace {

constexpr int64_t kFailedSavesToStop = 3;

// Reading a tensor is when a shard is half written: the place to be killed at in tests.
io::TensorSource source_of(std::string name, const Tensor& tensor) {
  auto source = io::TensorSource::of(std::move(name), tensor);
  source.load = [tensor] {
    fault("checkpoint.mid_shard");
    return tensor;
  };
  return source;
}

at::Generator generator_of(at::Device device) { return at::globalContext().defaultGenerator(device); }

// The estimate that counts is our own last save; a fresh run has none and finds out by writing.
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

// Before the rest: the steps an optimizer has made decide which tensors its state has (BAdam's belongs to one layer).
void read_counters(optim::Optimizer& optimizer, const SavedState& saved) {
  optimizer.visit_state([&](const std::string& name, Tensor& tensor) {
    if (tensor.dim() > 0) return;
    if (auto found = saved.read("optimizer/", {{name, tensor}}); !found.empty()) tensor.copy_(found.front().second);
  });
}

}  // namespace

// Runs `work` here and asks everyone: what failed on one process failed on all, so that none waits for the others for ever.
bool Saver::together(const std::function<void()>& work) {
  failure_.clear();
  try {
    work();
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& cause) {
    failure_ = cause.what();
  }
  bool ok = parts_.group.sum(failure_.empty() ? 0 : 1) == 0;
  if (!ok && failure_.empty()) failure_ = "another process could not write its part";
  return ok;
}

bool Saver::save(TrainState& state) {
  fs::path folder = run_.root / checkpoint_name(state.global_step);
  auto previous = state;
  if (state.best_global_step == state.global_step) state.best_model_checkpoint = folder.string();
  state.last_model_checkpoint = folder.string();
  state.failed_saves_in_a_row = 0;
  if (!together([&] { require_space(run_.root, previous.last_model_checkpoint); }) || !write(state)) {
    state = previous;
    ++state.failed_saves;
    log::error("{} was not saved: {}. Training goes on; older checkpoints are untouched", folder.string(), failure_);
    if (++state.failed_saves_in_a_row < kFailedSavesToStop) return false;
    throw UserError(ExitCode::out_of_space,
                    fmt::format("{} saves in a row failed, the last with: {}", kFailedSavesToStop, failure_),
                    fmt::format("free space under {} and continue from the newest checkpoint there", run_.root.string()));
  }
  if (!is_main()) return true;
  log::info("saved {}", folder.string());
  if (config_.checkpoint_links) {
    point_link(run_, "last", folder);
    if (!state.best_model_checkpoint.empty()) point_link(run_, "best", state.best_model_checkpoint);
  }
  if (config_.save_total_limit)
    retain_checkpoints(run_.root, run_.run_id, *config_.save_total_limit, {folder, state.best_model_checkpoint});
  return true;
}

bool Saver::write(const TrainState& state) {
  std::optional<CheckpointWriter> writer;
  auto stage_shared = [&] {
    if (is_main()) writer.emplace(run_.root, state.global_step, run_.run_id);
  };
  auto write_weights = [&] { writer->part(weights_.save); };
  auto save_weights = [&] {
    if (weights_.gather) weights_.gather(write_weights);
    else if (is_main()) write_weights();
  };
  auto save_companions = [&] {
    if (!is_main()) return;
    if (weights_.save_companions) writer->part(weights_.save_companions);
    writer->part([&](const fs::path& staging) {
      write_file_atomically(staging / "trainer_state.json", state.to_transformers(config_).dump(2));
    });
  };
  auto staging = CheckpointWriter::staging_folder(run_.root, state.global_step, run_.run_id);
  return together(stage_shared) && together(save_weights) && together(save_companions) &&
         together([&] { write_state(staging, state); }) && together([&] {
           if (is_main()) writer->commit();
         });
}

void Saver::write_state(const fs::path& staging, const TrainState& state) {
  fault("checkpoint.write");
  int rank = parts_.group.rank();
  Json position{{"schema", kCheckpointSchema},     {"processes", parts_.group.size()},    {"train", state.to_json()},
                {"data_order", run_.data_order},
                {"loader", parts_.loader.state()}, {"schedule", parts_.schedule.state()}, {"loss_scale", parts_.scale.state()}};
  write_file_atomically(staging / state_name(rank, "json"), position.dump(1));
  if (config_.save_only_model) return;
  std::vector<io::TensorSource> tensors;
  if (parts_.group.owns_state()) {
    for (const auto& [name, tensor] : parts_.optimizer.state()) tensors.push_back(source_of("optimizer/" + name, tensor));
    for (const auto& [name, tensor] : parts_.masters.state()) tensors.push_back(source_of("master/" + name, tensor));
  }
  tensors.push_back(source_of("random/cpu", generator_of(at::kCPU).get_state()));
  if (!parts_.device.is_cpu()) tensors.push_back(source_of("random/device", generator_of(parts_.device).get_state()));
  io::write_safetensors(staging / state_name(rank, "safetensors"), tensors);
}

TrainState Saver::restore(const fs::path& checkpoint) {
  weights_.load(checkpoint);
  parts_.masters.adopt_working();
  int rank = parts_.group.rank();
  if (!fs::exists(checkpoint / state_name(0, "json"))) return {};  // another program's checkpoint: its weights are what there is
  auto position = read_config_file((checkpoint / state_name(0, "json")).string());
  bool weights_alone = config_.resume_only_model && config_.ignore_data_skip;
  if (weights_alone) return {};
  int wrote = position.at("processes").get<int>();
  bool same_processes = wrote == parts_.group.size();
  if (same_processes && rank > 0) position = read_config_file((checkpoint / state_name(rank, "json")).string());
  if (!same_processes && !config_.ignore_data_skip && !position.at("loader").contains("unit_rows"))
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{} was written by {} processes that read streams; {} are running", checkpoint.string(), wrote, parts_.group.size()),
                    "start as many, or begin the data anew with --ignore_data_skip true");
  if (!config_.ignore_data_skip) parts_.loader.restore(position.at("loader"));
  auto state = TrainState::from_json(position.at("train"));
  if (config_.resume_only_model) return state;
  if (!fs::exists(checkpoint / state_name(0, "safetensors")))
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds weights alone (save_only_model)", checkpoint.string()),
                    "add --resume_only_model true to go on with a fresh optimizer");
  SavedState saved(checkpoint, wrote);
  read_counters(parts_.optimizer, saved);
  parts_.optimizer.load_state(saved.read("optimizer/", parts_.optimizer.state()));
  parts_.masters.load_state(saved.read("master/", parts_.masters.state()));
  parts_.masters.publish();
  parts_.group.after_update();
  parts_.schedule.load_state(position.at("schedule"));
  parts_.scale.restore(position.at("loss_scale"));
  if (!same_processes) return state;  // whose random numbers a process should go on with, nobody can say: it keeps its own
  io::SafetensorsFile own(checkpoint / state_name(rank, "safetensors"));
  generator_of(at::kCPU).set_state(own.tensor("random/cpu").clone());
  if (!parts_.device.is_cpu() && own.contains("random/device"))
    generator_of(parts_.device).set_state(own.tensor("random/device").clone());
  return state;
}

}  // namespace hone::train

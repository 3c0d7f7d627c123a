#include "hone/train/saver.h"

#include "hone/base/fault.h"
#include "hone/base/log.h"
#include "hone/io/safetensors.h"
#include "hone/train/checkpoint.h"

namespace hone::train {
namespace {

constexpr const char* kTensors = "hone_state.safetensors";
constexpr const char* kPosition = "hone_state.json";
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

optim::NamedTensors tensors_under(const io::SafetensorsFile& file, const std::string& prefix) {
  optim::NamedTensors found;
  for (const auto& entry : file.entries())
    if (entry.name.starts_with(prefix)) found.emplace_back(entry.name.substr(prefix.size()), file.tensor(entry));
  return found;
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

}  // namespace

bool Saver::save(TrainState& state) {
  fs::path folder = run_.root / checkpoint_name(state.global_step);
  auto previous = state;
  if (state.best_global_step == state.global_step) state.best_model_checkpoint = folder.string();
  state.last_model_checkpoint = folder.string();
  state.failed_saves_in_a_row = 0;
  try {
    require_space(run_.root, previous.last_model_checkpoint);
    write(state);
  } catch (const std::exception& cause) {
    if (dynamic_cast<const InternalError*>(&cause)) throw;
    state = previous;
    ++state.failed_saves;
    log::error("{} was not saved: {}. Training goes on; older checkpoints are untouched", folder.string(), cause.what());
    if (++state.failed_saves_in_a_row < kFailedSavesToStop) return false;
    throw UserError(ExitCode::out_of_space, fmt::format("{} saves in a row failed, the last with: {}", kFailedSavesToStop, cause.what()),
                    fmt::format("free space under {} and continue from the newest checkpoint there", run_.root.string()));
  }
  log::info("saved {}", folder.string());
  if (config_.checkpoint_links) {
    point_link(run_, "last", folder);
    if (!state.best_model_checkpoint.empty()) point_link(run_, "best", state.best_model_checkpoint);
  }
  if (config_.save_total_limit) retain_checkpoints(run_.root, run_.run_id, *config_.save_total_limit, {folder, state.best_model_checkpoint});
  return true;
}

fs::path Saver::write(const TrainState& state) {
  CheckpointWriter writer(run_.root, state.global_step, run_.run_id);
  writer.part(weights_.save);
  if (weights_.save_companions) writer.part(weights_.save_companions);
  writer.part([&](const fs::path& staging) {
    write_file_atomically(staging / "trainer_state.json", state.to_transformers(config_).dump(2));
  });
  writer.part([&](const fs::path& staging) { write_state(staging, state); });
  return writer.commit();
}

void Saver::write_state(const fs::path& staging, const TrainState& state) {
  Json position{{"schema", kCheckpointSchema}, {"train", state.to_json()}, {"loader", parts_.loader.state()},
                {"schedule", parts_.schedule.state()}, {"loss_scale", parts_.scale.state()}};
  write_file_atomically(staging / kPosition, position.dump(1));
  if (config_.save_only_model) return;
  std::vector<io::TensorSource> tensors;
  for (const auto& [name, tensor] : parts_.optimizer.state()) tensors.push_back(source_of("optimizer/" + name, tensor));
  for (const auto& [name, tensor] : parts_.masters.state()) tensors.push_back(source_of("master/" + name, tensor));
  tensors.push_back(source_of("random/cpu", generator_of(at::kCPU).get_state()));
  if (!parts_.device.is_cpu()) tensors.push_back(source_of("random/device", generator_of(parts_.device).get_state()));
  io::write_safetensors(staging / kTensors, tensors);
}

TrainState Saver::restore(const fs::path& checkpoint) {
  weights_.load(checkpoint);
  parts_.masters.adopt_working();
  if (!fs::exists(checkpoint / kPosition)) return {};  // another program's checkpoint: its weights are what there is
  auto position = read_config_file((checkpoint / kPosition).string());
  if (!config_.ignore_data_skip) parts_.loader.restore(position.at("loader"));
  auto state = TrainState::from_json(position.at("train"));
  if (config_.resume_only_model) return config_.ignore_data_skip ? TrainState{} : state;
  if (!fs::exists(checkpoint / kTensors))
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds weights alone (save_only_model)", checkpoint.string()),
                    "add --resume_only_model true to go on with a fresh optimizer");
  io::SafetensorsFile tensors(checkpoint / kTensors);
  parts_.optimizer.load_state(tensors_under(tensors, "optimizer/"));
  parts_.masters.load_state(tensors_under(tensors, "master/"));
  parts_.schedule.load_state(position.at("schedule"));
  parts_.scale.restore(position.at("loss_scale"));
  generator_of(at::kCPU).set_state(tensors.tensor("random/cpu").clone());
  if (!parts_.device.is_cpu() && tensors.contains("random/device")) generator_of(parts_.device).set_state(tensors.tensor("random/device").clone());
  return state;
}

}  // namespace hone::train

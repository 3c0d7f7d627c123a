// Training runs in memory: loading, restoring from snapshots, eviction.
#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/tinker/model/forward_batch.h"
#include "hone/tinker/model/model_loop.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {

void ModelLoop::take_snapshot(Resident& resident, int64_t seq) try {
  if (resident.run->has_gradients() || resident.row.snapshot_seq == seq) return;
  const auto folder = write_files(resident, seq, "runs", true, [&](const std::filesystem::path& written) {
    store_.set_snapshot(resident.row.id, seq, written.string(), saved_bytes(written));
  });
  remove_saved(resident.row.snapshot);
  resident.row.snapshot = folder.string();
  resident.row.snapshot_seq = seq;
  resident.seconds = 0;
  resident.bytes = 0;
} catch (const std::exception& problem) {
  log::error("{}: no snapshot was taken, and the requests after the last one are kept: {}", resident.row.id, problem.what());
}

// For a run that takes this many bytes, evicts the least recently used ones from memory: their snapshot and the requests after it
// restore them.
void ModelLoop::evict_for(int64_t bytes) {
  for (const auto& [name, resident] : residents_) bytes += resident.run->bytes();
  while (residents_.size() > busy_.size() && (residents_.size() >= config_.max_adapters || bytes > resident_bytes_)) {
    auto oldest = std::ranges::min_element(
        residents_, {}, [&](const auto& each) { return std::pair(busy_.contains(each.first), each.second.used); });
    bytes -= oldest->second.run->bytes();
    take_snapshot(oldest->second, oldest->second.row.executed);
    residents_.erase(oldest);
  }
}

// Whether the run can be in memory together with those that this round still computes.
bool ModelLoop::fits_with_busy_runs(const std::string& run) {
  if (busy_.empty()) return true;
  const auto row = store_.run_of_any_owner(run);
  int64_t bytes = row ? TrainingRun::bytes_of(model_, row->config) : 0;
  for (const auto& name : busy_)
    if (const auto found = residents_.find(name); found != residents_.end()) bytes += found->second.run->bytes();
  return bytes <= resident_bytes_;
}

ModelLoop::Resident& ModelLoop::resident(const std::string& run) {
  auto found = residents_.find(run);
  if (found == residents_.end()) {
    auto row = store_.run_of_any_owner(run);
    if (!row || row->unloaded) throw RequestError("this model was unloaded");
    const auto bytes = TrainingRun::bytes_of(model_, row->config);
    if (bytes > resident_bytes_)
      throw RequestError(fmt::format(
          "this model's adapter of rank {} takes {} with gradients and optimizer state; this server has {} for all "
          "of them: lower the rank, or leave out train_mlp, train_attn or train_unembed",
          row->config.rank, format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(resident_bytes_))));
    evict_for(bytes);
    Resident made{std::make_unique<TrainingRun>(model_, run, row->config, config_.base_model), *row};
    rebuild(made);
    found = residents_.emplace(run, std::move(made)).first;
  }
  found->second.used = ++clock_;
  return found->second;
}

void ModelLoop::forward_again(Resident& resident, const StoredRequest& request) {
  auto data = read_forward_backward(request.body);
  data.seq_id = request.seq;
  ForwardTask task(model_, *resident.run, std::move(data), config_.max_length, true);
  ForwardBatch batch(model_, config_.batch_tokens);
  batch.add(task);
  while (batch.step()) {
  }
  if (task.failed()) throw RequestError(task.error());
}

// The same requests in the same order give the same weights and gradients.
void ModelLoop::rebuild(Resident& resident) {
  try {
    if (!resident.row.snapshot.empty()) resident.run->load(resident.row.snapshot, true);
  } catch (const RequestError& problem) {
    throw RequestError(
        fmt::format("this model cannot be restored from its snapshot: {}; create one from a checkpoint", problem.what()));
  }
  auto requests = store_.requests_after(resident.row.id, resident.row.snapshot_seq);
  const auto began = std::chrono::steady_clock::now();
  for (const auto& request : requests) {
    const bool forward = request.kind == "forward_backward", step = request.kind == "optim_step";
    if (request.failed && forward) resident.run->invalidate_gradients();
    if (request.failed && step) resident.run->clear_gradients();
    if (!request.failed && (step || request.kind == "load_weights")) perform(resident, request);
    if (request.kind == "zero_grad") resident.run->clear_gradients();
    if (!request.failed && forward) forward_again(resident, request);
    resident.bytes += static_cast<int64_t>(request.body.size());
  }
  resident.seconds = seconds_since(began);
  if (!requests.empty()) log::info("{}: {} requests after its snapshot were repeated", resident.row.id, requests.size());
}

}  // namespace hone::tinker

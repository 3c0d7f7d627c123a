#include "hone/train/checkpoints/hub_push.h"

#include <algorithm>
#include <chrono>

#include "hone/base/log.h"
#include "hone/hub/upload.h"

namespace hone::train {
namespace {

// Files that only hone needs to resume a run; users of the model do not need them.
bool is_run_state(const std::string& name) {
  return name.starts_with("hone_state") || name == "manifest.json" || name == "trainer_state.json";
}

std::vector<fs::path> files_to_push(const fs::path& folder, bool with_state) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    auto name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with(".") || name.starts_with("_")) continue;
    if (with_state || !is_run_state(name)) files.push_back(entry.path().filename());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

HubPush::~HubPush() {
  if (under_way_.valid()) under_way_.wait();
}

void HubPush::send(const fs::path& checkpoint, int64_t step) const {
  hub::UploadRequest request{.repo = config_.repo,
                             .private_repo = config_.private_repo,
                             .folder = checkpoint,
                             .files = files_to_push(checkpoint, false),
                             .path_in_repo = "",
                             .message = fmt::format("Training in progress, step {}", step)};
  hub::upload(request);
  if (config_.when == PushWhen::every_save) return;
  request.files = files_to_push(checkpoint, true);
  request.path_in_repo = config_.when == PushWhen::checkpoint ? "last-checkpoint" : checkpoint.filename().string();
  request.message += ", checkpoint";
  hub::upload(request);
}

void HubPush::saved(const fs::path& checkpoint, int64_t step) {
  if (config_.when == PushWhen::end) return;
  using namespace std::chrono_literals;
  bool busy = under_way_.valid() && under_way_.wait_for(0s) != std::future_status::ready;
  if (busy && !config_.always) {
    log::info("{} is not uploaded: the previous upload is still running", checkpoint.string());
    return;
  }
  if (under_way_.valid()) under_way_.wait();
  under_way_ = std::async(std::launch::async, [this, checkpoint, step] {
    try {
      send(checkpoint, step);
    } catch (const std::exception& problem) {
      log::error("{} was not sent: {}. Training continues", checkpoint.string(), problem.what());
    }
  });
}

std::string HubPush::finish(const fs::path& folder) {
  if (under_way_.valid()) under_way_.wait();
  return hub::upload({.repo = config_.repo,
                      .private_repo = config_.private_repo,
                      .folder = folder,
                      .files = files_to_push(folder, false),
                      .path_in_repo = "",
                      .message = "End of training"});
}

}  // namespace hone::train

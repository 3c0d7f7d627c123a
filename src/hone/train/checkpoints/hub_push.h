// push_to_hub: uploads checkpoints and the final model in the background.
#pragma once
#include <future>
#include <string>

#include "hone/base/file.h"
#include "hone/hub/access.h"

namespace hone::train {

enum class PushWhen { end, every_save, checkpoint, all_checkpoints };

struct HubPushConfig {
  hub::Repo repo;
  bool private_repo = false;
  PushWhen when = PushWhen::every_save;
  bool always = false;  // wait for an upload under way; else a save during an upload is not sent
};

class HubPush {
 public:
  explicit HubPush(HubPushConfig config) : config_(std::move(config)) {}
  ~HubPush();
  HubPush(const HubPush&) = delete;

  // After a save: uploads the model to the top of the repository, with `checkpoint` also as last-checkpoint, with
  // `all_checkpoints` under its own name. A failure is logged; training continues.
  void saved(const fs::path& checkpoint, int64_t step);
  // Uploads the final model; returns its URL. Throws UserError.
  std::string finish(const fs::path& folder);

 private:
  void send(const fs::path& checkpoint, int64_t step) const;
  HubPushConfig config_;
  std::future<void> under_way_;
};

}  // namespace hone::train

// Multi-turn schedulers decide what follows each completion of a rollout, and when the episode ends.
#pragma once
#include <memory>
#include <optional>

#include "hone/data/encode/encoder.h"
#include "hone/train/rl/turns/config.h"

namespace hone::parallel {
class ProcessGroup;
}

namespace hone::train::rl {

// One completion of the model, as input of schedulers.
struct TurnInput {
  uint64_t episode = 0;                          // the same for all turns of one
  const data::Conversation* question = nullptr;  // columns and tools of the row, and all media so far
  const std::vector<data::Message>* messages =
      nullptr;            // all so far; the last one is the completion, in full if it was continued
  std::string text = {};  // in this turn only
  int64_t turn = 1;
  bool truncated = false;  // the completion reached the length limit
  bool last = false;       // no turn follows, regardless of the scheduler
};

// A message that follows a completion.
struct ReplyMessage {
  std::string role, content;
  std::vector<std::string> images = {};  // of its first tags <image>; those without a tag come before its text
};

struct NextTurn {
  bool done = true;
  size_t keep = std::string::npos;            // bytes of `text` to keep, if the completion is continued
  std::optional<std::string> continued = {};  // text that is appended to it, masked
  std::vector<ReplyMessage> replies = {};     // or: messages that follow it
  bool splits = false;                        // the next completion starts another sequence, whose prompt is rendered again
  Json infos = nullptr;                       // for rewards, joined with those of earlier turns
};

class TurnScheduler {
 public:
  virtual ~TurnScheduler() = default;
  // Before the first turn. An environment may replace the messages and the images.
  virtual void start(const std::vector<uint64_t>& episodes, std::vector<data::Conversation>& questions) {
    (void)episodes, (void)questions;
  }
  virtual bool replaces_messages() const { return false; }
  // Returns the next turn after each completion. Throws UserError, StopBetweenSteps.
  virtual std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) = 0;
  virtual std::vector<std::string> stop_words() const { return {}; }
  // Metrics of the turns since the last call, summed.
  virtual std::vector<std::pair<std::string, double>> take_counts() { return {}; }
};

// Throws UserError(usage) for an unknown name.
std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config);
// Each in a file of its own.
std::unique_ptr<TurnScheduler> make_hermes_tools(const ToolConfig& config);
std::unique_ptr<TurnScheduler> make_react_tools(const ToolConfig& config);
std::unique_ptr<TurnScheduler> make_math_tips();
std::unique_ptr<TurnScheduler> make_thinking_tips();
std::unique_ptr<TurnScheduler> make_plugin_scheduler(const TurnConfig& config);
// A scheduler whose images are data: URIs, so that nothing reads their files again. One that the model cannot read ends its
// episode; with `text_only`, or a model without images, any ends the run.
std::unique_ptr<TurnScheduler> with_inlined_images(std::unique_ptr<TurnScheduler> scheduler,
                                                   std::shared_ptr<const data::Encoder> encoder, bool text_only = false);
// For `peers` that run the same episodes: only the first of them has a scheduler, and inlines its images.
std::unique_ptr<TurnScheduler> make_peer_scheduler(const TurnConfig& config, parallel::ProcessGroup& peers,
                                                   std::shared_ptr<const data::Encoder> encoder);

}  // namespace hone::train::rl

// Who answers the model between the turns of a rollout, and when it is over.
#pragma once
#include <memory>
#include <optional>

#include "hone/data/encode/encoder.h"
#include "hone/train/rl/turns/config.h"

namespace hone::train::rl {

// One answer of the model, as schedulers see it.
struct TurnInput {
  uint64_t episode = 0;                                  // the same for all turns of one
  const data::Conversation* question = nullptr;          // columns and tools of the row
  const std::vector<data::Message>* messages = nullptr;  // all so far; the last one is the answer, whole where it was continued
  std::string said = {};                                 // in this turn alone
  int64_t turn = 1;
  bool truncated = false;  // the answer met the length limit
  bool last = false;       // no turn follows, whatever the scheduler says
};

struct NextTurn {
  bool done = true;
  size_t keep = std::string::npos;            // bytes of `said` that stay, where the answer goes on instead of being answered
  std::optional<std::string> continued = {};  // written behind it, by others than the model
  std::vector<data::Message> replies = {};    // or: messages that answer it
  Json infos = nullptr;                       // for rewards, joined with those of earlier turns
};

class TurnScheduler {
 public:
  virtual ~TurnScheduler() = default;
  // Before the first turn. An environment may replace the messages.
  virtual void start(const std::vector<uint64_t>& episodes, std::vector<data::Conversation>& questions) {
    (void)episodes, (void)questions;
  }
  virtual bool replaces_messages() const { return false; }
  // What follows each answer. Throws UserError, StopBetweenSteps.
  virtual std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) = 0;
  virtual std::vector<std::string> stop_words() const { return {}; }
  // About the turns since it was last asked, summed over them.
  virtual std::vector<std::pair<std::string, double>> take_counts() { return {}; }
};

// Throws UserError(usage) for a name that is none.
std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config);
// Each in a file of its own.
std::unique_ptr<TurnScheduler> make_hermes_tools(const ToolConfig& config);
std::unique_ptr<TurnScheduler> make_react_tools(const ToolConfig& config);
std::unique_ptr<TurnScheduler> make_math_tips();
std::unique_ptr<TurnScheduler> make_plugin_scheduler(const TurnConfig& config);

}  // namespace hone::train::rl

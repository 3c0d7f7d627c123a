// Requests completions from rollout servers. A failed server is reported and counted; its work goes to the others, or waits until
// it is back and has the present weights. Independent of processes and models.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "hone/engine/sampling_params.h"
#include "hone/train/rl/rollout_engine.h"
#include "hone/train/rl/servers/config.h"
#include "hone/train/rl/servers/weights_payload.h"

namespace hone::train::rl {

// The media of one or several prompts, as a server gets them.
struct RolloutMedia {
  Json body;                     // {"parts": [{"type": "image", "image": "data:…"}], "spans": [[4, 20]]}
  size_t bytes = 0, tokens = 0;  // of the content, and its placeholders
};

struct RolloutQuestion {
  std::vector<text::TokenId> prompt;
  uint64_t seed = 0;
  int64_t max_tokens = 0;                          // of the completion; 0: as configured
  std::shared_ptr<const RolloutMedia> media = {};  // null: only text
};

// The protocol of one type of server. Thread-safe.
class RolloutProtocol {
 public:
  virtual ~RolloutProtocol() = default;
  // busy and failed may be transient; refused is final.
  enum class Outcome { done, other_weights, busy, failed, refused };
  struct Reply {
    Outcome outcome = Outcome::failed;
    std::string failure = {};
    std::vector<GeneratedCompletion> completions = {};
    std::string scheduler = {};  // greet: of turns, as the server was started for
  };
  using IsCancelled = std::function<bool()>;  // polled about once a second

  virtual Reply ask(const std::string& address, std::span<const RolloutQuestion> questions, int64_t version,
                    const IsCancelled& is_cancelled) const = 0;
  virtual Reply send_weights(const std::string& address, const WeightsPayload& weights,
                             const IsCancelled& is_cancelled) const = 0;
  virtual Reply greet(const std::string& address) const = 0;  // whether it is reachable and of this type
  virtual size_t most_questions() const = 0;                  // of one request
  virtual size_t requests_at_once() const = 0;                // to one server
};
std::unique_ptr<RolloutProtocol> make_hone_protocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling);
// `tokenizer` tokenizes texts for training.
std::unique_ptr<RolloutProtocol> make_openai_protocol(const RolloutServerConfig& config, const engine::SamplingParams& sampling,
                                                      std::shared_ptr<const text::Tokenizer> tokenizer);

// Before a model is loaded for them: as RolloutClient::require_servers.
void require_rollout_servers(const RolloutServerConfig& config, bool runs_turns);

class RolloutClient {
 public:
  RolloutClient(const RolloutServerConfig& config, std::unique_ptr<RolloutProtocol> protocol);

  // Throws UserError(failure) if a server does not respond within the timeout, has another type, or is for runs with turns.
  void require_servers(bool runs_turns) const;
  // In the order of the prompts; empty if `is_cancelled` ended it. Throws UserError(failure) when no server is left or one
  // refuses.
  std::optional<std::vector<GeneratedCompletion>> generate(const WeightsPayload& weights,
                                                           const std::vector<RolloutQuestion>& questions,
                                                           const std::function<bool()>& is_cancelled);

  int64_t failures() const { return failures_; }            // of servers, so far
  double seconds_sending() const { return send_seconds_; }  // weights, in the last call

 private:
  struct Server;
  struct Work;
  void serve(Server& server, Work& work);
  bool has_weights(Server& server, Work& work);
  void generate_chunk(Server& server, Work& work, size_t chunk);
  void note_failure(Server& server, const std::string& why);
  bool wait_for_return(Server& server, Work& work);

  RolloutServerConfig config_;
  std::unique_ptr<RolloutProtocol> protocol_;
  std::vector<std::shared_ptr<Server>> servers_;
  std::atomic<int64_t> failures_{0};
  std::atomic<double> send_seconds_{0};
};

}  // namespace hone::train::rl

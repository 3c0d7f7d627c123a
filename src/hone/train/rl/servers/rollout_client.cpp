#include "hone/train/rl/servers/rollout_client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "hone/base/log.h"

namespace hone::train::rl {
namespace {

using ServerClock = std::chrono::steady_clock;
using Outcome = RolloutProtocol::Outcome;
constexpr auto kMoment = std::chrono::milliseconds(100);
constexpr int kTriesOfChunk = 6;

constexpr const char* kAfterFailure =
    "make sure that they run; `vllm_server_timeout` is how long the run waits for them. Resume the run from its last checkpoint "
    "with "
    "`resume_from_checkpoint`";

// Splits before `end` if the prompts of one request would exceed the limits of tokens or media; at least one prompt.
size_t end_within(const std::vector<RolloutQuestion>& questions, size_t begin, size_t end) {
  constexpr size_t kMostTokens = 400'000, kMostMediaTokens = 65'536, kMostMediaBytes = size_t{16} << 20;
  size_t tokens = 0, media_tokens = 0, media_bytes = 0, next = begin;
  for (; next < end; ++next) {
    tokens += questions[next].prompt.size();
    const auto& media = questions[next].media;
    if (media && (next == begin || media != questions[next - 1].media))  // prompts with the same media are next to each other
      media_tokens += media->tokens, media_bytes += media->bytes;
    if (next > begin && (tokens > kMostTokens || media_tokens > kMostMediaTokens || media_bytes > kMostMediaBytes)) break;
  }
  return next;
}

}  // namespace

struct RolloutClient::Server {
  std::string address;
  std::mutex mutex;
  std::atomic<int64_t> version{-1};  // version of its weights, if known
  std::atomic<bool> down{false};
};

// One rollout: prompts in chunks, each assigned to a server as long as that is available.
struct RolloutClient::Work {
  struct Chunk {
    size_t begin, end;
    Server* owner;
    bool taken = false;
    int tries = 0;
  };
  const WeightsPayload& weights;
  const std::vector<RolloutQuestion>& questions;
  const std::function<bool()>& is_cancelled;
  std::vector<Chunk> chunks;
  std::vector<GeneratedCompletion> completions;

  std::mutex mutex;
  std::condition_variable changed;
  size_t left = 0;
  bool cancelled = false;
  std::optional<UserError> problem;

  bool ended() {
    std::lock_guard lock(mutex);
    cancelled = cancelled || (is_cancelled && is_cancelled());
    return left == 0 || cancelled || problem;
  }
  std::optional<size_t> take(const Server& server) {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].taken || (chunks[i].owner != &server && !chunks[i].owner->down)) continue;
      chunks[i].taken = true;
      return i;
    }
    return std::nullopt;
  }
  void put_back(size_t chunk) {
    std::lock_guard lock(mutex);
    chunks[chunk].taken = false;
    changed.notify_all();
  }
  void store(size_t chunk, std::vector<GeneratedCompletion> generated) {
    std::lock_guard lock(mutex);
    std::ranges::move(generated, completions.begin() + static_cast<ptrdiff_t>(chunks[chunk].begin));
    --left;
    changed.notify_all();
  }
  void fail(UserError why) {
    std::lock_guard lock(mutex);
    if (!problem) problem = std::move(why);
    changed.notify_all();
  }
  void wait_a_moment() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kMoment);
  }
};

RolloutClient::RolloutClient(const RolloutServerConfig& config, std::unique_ptr<RolloutProtocol> protocol)
    : config_(config), protocol_(std::move(protocol)) {
  for (const auto& address : config_.addresses) {
    servers_.push_back(std::make_shared<Server>());
    servers_.back()->address = address;
  }
}

void RolloutClient::require_servers(bool runs_turns) const {
  const auto deadline = ServerClock::now() + std::chrono::duration<double>(config_.timeout);
  for (const auto& server : servers_) {
    bool told = false;
    for (;;) {
      auto reply = protocol_->greet(server->address);
      if (reply.outcome == Outcome::done && !reply.scheduler.empty() && !runs_turns)
        throw UserError(ExitCode::usage,
                        fmt::format("the rollout server {} was started with `multi_turn_scheduler` {}, and this run has none",
                                    server->address, reply.scheduler),
                        fmt::format("the training run executes the turns: add `multi_turn_scheduler` {} to its command, and "
                                    "`max_turns` and `external_plugins` where the server has them",
                                    reply.scheduler));
      if (reply.outcome == Outcome::done) break;
      if (reply.outcome == Outcome::refused)
        throw UserError(
            ExitCode::usage, fmt::format("{} is not a rollout server of hone: {}", server->address, reply.failure),
            "start one with `hone rollout`, or sample from any OpenAI-compatible server with `vllm_server_type` openai");
      if (ServerClock::now() > deadline)
        throw UserError(ExitCode::failure,
                        fmt::format("the rollout server {} does not answer: {}", server->address, reply.failure),
                        "start it with `hone rollout --port …`; `vllm_server_timeout` is how long the run waits for it");
      if (!std::exchange(told, true)) log::info("waiting for the rollout server {} ({})", server->address, reply.failure);
      std::this_thread::sleep_for(5 * kMoment);
    }
  }
}

void require_rollout_servers(const RolloutServerConfig& config, bool runs_turns) {
  RolloutClient(config, config.sampling_only ? make_openai_protocol(config, {}, nullptr) : make_hone_protocol(config, {}))
      .require_servers(runs_turns);
}

std::optional<std::vector<GeneratedCompletion>> RolloutClient::generate(const WeightsPayload& weights,
                                                                        const std::vector<RolloutQuestion>& questions,
                                                                        const std::function<bool()>& is_cancelled) {
  Work work{.weights = weights,
            .questions = questions,
            .is_cancelled = is_cancelled,
            .chunks = {},
            .completions = {},
            .mutex = {},
            .changed = {},
            .problem = {}};
  work.completions.resize(questions.size());
  const auto share = (questions.size() + servers_.size() - 1) / servers_.size();
  for (size_t begin = 0; begin < questions.size();) {
    const auto server = begin / share;
    const auto end = std::min({begin + protocol_->most_questions(), (server + 1) * share, questions.size()});
    work.chunks.push_back({begin, end_within(questions, begin, end), servers_[server].get()});
    begin = work.chunks.back().end;
  }
  work.left = work.chunks.size();
  send_seconds_ = 0;
  {
    std::vector<std::jthread> threads;
    for (const auto& server : servers_)
      for (size_t i = 0; i < protocol_->requests_at_once(); ++i)
        threads.emplace_back([&, server] {
          try {
            serve(*server, work);
          } catch (const std::exception& problem) {
            work.fail(UserError(ExitCode::failure, fmt::format("{}: {}", server->address, problem.what())));
          }
        });
  }
  if (work.problem) throw *work.problem;
  if (work.cancelled) return std::nullopt;
  if (work.left > 0)
    throw UserError(ExitCode::failure, fmt::format("no rollout server answers any more ({} of them)", servers_.size()),
                    kAfterFailure);
  return std::move(work.completions);
}

void RolloutClient::serve(Server& server, Work& work) {
  while (!work.ended()) {
    if (server.down && !wait_for_return(server, work)) return;
    if (!has_weights(server, work)) continue;
    if (auto chunk = work.take(server))
      generate_chunk(server, work, *chunk);
    else
      work.wait_a_moment();
  }
}

// Sends the weights if the server has another version.
bool RolloutClient::has_weights(Server& server, Work& work) {
  std::lock_guard lock(server.mutex);
  if (server.version == work.weights.version) return true;
  const auto began = ServerClock::now();
  const auto reply = protocol_->send_weights(server.address, work.weights, [&work] { return work.ended(); });
  send_seconds_ = std::max(send_seconds_.load(), std::chrono::duration<double>(ServerClock::now() - began).count());
  if (reply.outcome == Outcome::done)
    server.version = work.weights.version;
  else if (reply.outcome == Outcome::refused)
    work.fail(UserError(ExitCode::failure, fmt::format("{} refuses the weights: {}", server.address, reply.failure),
                        "start it with the `model` of this run"));
  else if (!work.ended())
    note_failure(server, reply.failure);
  return reply.outcome == Outcome::done;
}

void RolloutClient::generate_chunk(Server& server, Work& work, size_t index) {
  auto& chunk = work.chunks[index];
  const std::span questions(work.questions.data() + chunk.begin, chunk.end - chunk.begin);
  auto reply = protocol_->ask(server.address, questions, work.weights.version, [&work] { return work.ended(); });
  if (reply.outcome == Outcome::done) return work.store(index, std::move(reply.completions));
  if (reply.outcome == Outcome::refused || (reply.outcome != Outcome::busy && ++chunk.tries == kTriesOfChunk))
    return work.fail(UserError(ExitCode::failure,
                               fmt::format("the rollout server {} gave no completions: {}", server.address, reply.failure),
                               kAfterFailure));
  if (reply.outcome == Outcome::other_weights) server.version = -1;
  if (reply.outcome == Outcome::failed && !work.ended()) note_failure(server, reply.failure);
  work.put_back(index);
  if (reply.outcome == Outcome::busy) work.wait_a_moment();
}

void RolloutClient::note_failure(Server& server, const std::string& why) {
  if (server.down.exchange(true)) return;
  ++failures_;
  const bool others = std::ranges::any_of(servers_, [](const auto& other) { return !other->down; });
  log::warning("the rollout server {} does not answer: {}; {}", server.address, why,
               others ? "the others take its completions" : "the run waits for it");
}

// False: no longer needed, or timed out.
bool RolloutClient::wait_for_return(Server& server, Work& work) {
  const auto deadline = ServerClock::now() + std::chrono::duration<double>(config_.timeout);
  while (!work.ended()) {
    if (!server.down) return true;
    if (protocol_->greet(server.address).outcome == Outcome::done) {
      server.version = -1;
      if (server.down.exchange(false)) log::info("the rollout server {} is back", server.address);
      return true;
    }
    if (ServerClock::now() > deadline) return false;
    for (int i = 0; i < 5 && !work.ended(); ++i) work.wait_a_moment();
  }
  return false;
}

}  // namespace hone::train::rl

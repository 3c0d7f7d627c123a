// Completions from rollout servers, for all processes of a run: the first process requests all of them.
#include <future>
#include <random>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/base/progress.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/servers/rollout_client.h"

namespace hone::train::rl {
namespace {

bool wants_to_stop() { return StopSignal::requested() != Stop::none; }

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Gathers each process's data as one text, in rank order.
std::vector<Json> gather_json(const Json& own, ParallelStrategy& group) {
  std::vector<Json> all;
  for (const auto& text : gather(std::vector<std::string>{dumped(own)}, group)) {
    auto parsed = parse_json(text);
    HONE_CHECK(parsed.ok(), "another process sent something else than JSON: {}", parsed.error());
    all.push_back(std::move(*parsed));
  }
  return all;
}

// Runs count from different numbers: if two of them use one server by mistake, neither takes the other's weights for its own.
int64_t first_push() {
  constexpr int64_t kStarts = 900, kPushesOfRun = 1'000'000;  // a version is at most 10^9
  return static_cast<int64_t>(1 + std::random_device()() % (kStarts - 1)) * kPushesOfRun;
}

// Converts a server's weight version in completions to the trainer's.
void count_versions(std::vector<GeneratedCompletion>& completions, int64_t pushes, int64_t version) {
  for (auto& completion : completions)
    for (auto& sampled : completion.versions) sampled = version - (pushes - sampled);
}

// Prompts as they are sent to other processes: without the content of their media.
struct AskedQuestions {
  std::vector<RolloutQuestion> questions;
  std::vector<data::MediaPlacement> media;
  std::vector<int64_t> media_each;  // of each question; -1: only text

  void add(const std::vector<RolloutEngine::Question>& own) {
    const PromptMedia* last = nullptr;
    for (const auto& question : own) {
      questions.push_back({*question.prompt, question.seed, question.max_tokens});
      if (question.media && question.media.get() != last) media.push_back(question.media->placement());
      last = question.media.get();
      media_each.push_back(last ? static_cast<int64_t>(media.size()) - 1 : -1);
    }
  }
  Json to_json() const {
    Json described{{"questions", Json::array()}, {"media", Json::array()}};
    for (size_t i = 0; i < questions.size(); ++i)
      described["questions"].push_back({questions[i].prompt, questions[i].seed, questions[i].max_tokens, media_each[i]});
    for (const auto& placement : media) described["media"].push_back(data::to_json(placement));
    return described;
  }
  void add_json(const Json& described) {
    const auto first = static_cast<int64_t>(media.size());
    for (const auto& question : described.at("questions")) {
      questions.push_back(
          {question[0].get<std::vector<text::TokenId>>(), question[1].get<uint64_t>(), question[2].get<int64_t>()});
      const auto own = question[3].get<int64_t>();
      media_each.push_back(own < 0 ? -1 : first + own);
    }
    for (const auto& placement : described.at("media")) media.push_back(data::placement_from(placement));
  }
  // With the content of their media, which this process reads.
  std::vector<RolloutQuestion> with_content(const data::Encoder& encoder) const {
    std::vector<std::shared_ptr<const RolloutMedia>> read;
    for (const auto& placement : media) read.push_back(read_media(encoder, placement));
    auto all = questions;
    for (size_t i = 0; i < all.size(); ++i)
      if (media_each[i] >= 0) all[i].media = read[static_cast<size_t>(media_each[i])];
    return all;
  }

 private:
  static std::shared_ptr<const RolloutMedia> read_media(const data::Encoder& encoder, const data::MediaPlacement& placement) {
    RolloutMedia media{.body = {{"parts", Json::array()}, {"spans", data::to_json(placement).at("spans")}}};
    for (const auto& source : placement.sources) {
      auto part = data::content_part(encoder, source).or_throw(ExitCode::bad_data, "a medium for a rollout server");
      media.bytes += part.dump().size();
      media.body["parts"].push_back(std::move(part));
    }
    for (const auto& [begin, end] : placement.spans) media.tokens += end - begin;
    return std::make_shared<const RolloutMedia>(std::move(media));
  }
};

// The first process's connection to the servers, independent of the other processes.
class DetachedEngine final : public RolloutEngine {
 public:
  DetachedEngine(RolloutClient& client, std::shared_ptr<const data::Encoder> encoder,
                 std::shared_ptr<const WeightsPayload> weights, int64_t version, std::function<bool()> is_cancelled)
      : client_(client),
        encoder_(std::move(encoder)),
        weights_(std::move(weights)),
        version_(version),
        is_cancelled_(std::move(is_cancelled)) {}

  void begin(const std::vector<Question>& questions, int64_t) override { begin_again(questions); }
  void begin_again(const std::vector<Question>& questions) override {
    AskedQuestions asked;
    asked.add(questions);
    asked_ = asked.with_content(*encoder_);
  }
  std::vector<GeneratedCompletion> finish(bool) override {
    auto completions = client_.generate(*weights_, asked_, is_cancelled_);
    if (!completions) throw StopBetweenSteps();
    count_versions(*completions, weights_->version, version_);
    return std::move(*completions);
  }

 private:
  RolloutClient& client_;
  std::shared_ptr<const data::Encoder> encoder_;
  std::shared_ptr<const WeightsPayload> weights_;
  int64_t version_;
  std::function<bool()> is_cancelled_;
  std::vector<RolloutQuestion> asked_;
};

class ServerEngine final : public RolloutEngine {
 public:
  ServerEngine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config) : deps_(deps), config_(config) {
    const auto sampling = rollout_sampling(config.sampling, *deps.encoder);
    if (deps.tuned && !config.servers->sampling_only) require_followable(*deps.tuned);
    if (deps_.group.rank() != 0) return;
    client_ = std::make_unique<RolloutClient>(
        *config.servers, config.servers->sampling_only ? make_openai_protocol(*config.servers, sampling, deps.tokenizer)
                                                       : make_hone_protocol(*config.servers, sampling));
  }
  ~ServerEngine() override {
    abandoned_ = true;
    if (pending_.valid()) pending_.wait();
  }

  void begin(const std::vector<Question>& questions, int64_t version) override {
    take_weights(version);
    begin_again(questions);
  }

  std::unique_ptr<RolloutEngine> detach(int64_t version, std::function<bool()> is_cancelled) override {
    take_weights(version);
    return client_ ? std::make_unique<DetachedEngine>(*client_, deps_.encoder, weights_, version, std::move(is_cancelled))
                   : nullptr;
  }
  void rejoin() override { read_metrics(gather_json(described_metrics(), deps_.group).front()); }

  void begin_again(const std::vector<Question>& questions) override {
    may_stop_ = false;  // until a process waits
    auto asked = gather_questions(questions);
    if (!client_) return;
    pending_ = std::async(std::launch::async, [this, weights = weights_, asked = std::move(asked)] {
      return client_->generate(*weights, asked.with_content(*deps_.encoder),
                               [this] { return abandoned_ || (may_stop_ && wants_to_stop()); });
    });
  }

  std::vector<GeneratedCompletion> finish(bool may_stop) override {
    may_stop_ = may_stop;
    std::optional<std::vector<GeneratedCompletion>> all;
    std::optional<UserError> problem;
    try {
      if (pending_.valid()) all = wait_for_all();
    } catch (const UserError& found) {
      problem = found;
    }
    if (deps_.group.sum(problem.has_value()) > 0)
      throw FailedBetweenSteps(
          problem.value_or(UserError(ExitCode::failure, "there are no completions; the first process says why")));
    if (deps_.group.sum(client_ && !all) > 0) throw StopBetweenSteps();
    return own_part_of(all);
  }

  std::vector<std::pair<std::string, double>> metrics() const override { return metrics_; }

 private:
  AskedQuestions gather_questions(const std::vector<Question>& own) {
    AskedQuestions described, all;
    described.add(own);
    counts_.clear();
    for (const auto& part : gather_json(described.to_json(), deps_.group)) {
      counts_.push_back(part.at("questions").size());
      all.add_json(part);
    }
    return all;
  }

  void take_weights(int64_t version) {
    version_ = version;
    weights_ = std::make_shared<WeightsPayload>(weights_now());
    pushed_bytes_ = static_cast<double>(weights_->bytes());
  }

  // Kept until the next rollout: a server that returns receives them while the model continues training.
  WeightsPayload weights_now() {
    ++pushes_;
    if (config_.servers->sampling_only || !deps_.tuned) return {.version = pushes_, .parts = {}};
    WeightsPayload payload{.version = pushes_, .parts = {}};
    const auto* files = deps_.files;
    const auto make = [&] {
      payload = make_payload(deps_.model, *deps_.tuned, pushes_, files ? files->read : tuner::ReadWeight());
    };
    if (files && files->gather)
      files->gather(make);
    else if (client_)
      make();
    return payload;
  }

  std::optional<std::vector<GeneratedCompletion>> wait_for_all() {
    while (pending_.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready)
      ProgressBar::set_active_status("waiting for completions");
    auto all = pending_.get();
    if (all) count_versions(*all, pushes_, version_);
    return all;
  }

  std::vector<GeneratedCompletion> own_part_of(const std::optional<std::vector<GeneratedCompletion>>& all) {
    auto described = described_metrics();
    if (client_)
      for (const auto& completion : *all) described["completions"].push_back(completion_json(completion));
    const auto first = gather_json(described, deps_.group).front();
    read_metrics(first);
    size_t begin = 0;
    const auto rank = static_cast<size_t>(deps_.group.rank());
    for (size_t i = 0; i < rank; ++i) begin += counts_[i];
    std::vector<GeneratedCompletion> own;
    for (size_t i = begin; i < begin + counts_[rank]; ++i) own.push_back(completion_of(first.at("completions").at(i)));
    return own;
  }

  Json described_metrics() const {
    if (!client_) return Json::object();
    return {{"failures", client_->failures()}, {"seconds", client_->seconds_sending()}, {"bytes", pushed_bytes_}};
  }
  void read_metrics(const Json& first) {
    metrics_ = {{"rollout/server_failures", first.at("failures").get<double>()},
                {"rollout/push_seconds", first.at("seconds").get<double>()},
                {"rollout/push_bytes", first.at("bytes").get<double>()}};
  }

  RolloutEngineDeps deps_;
  RolloutEngineConfig config_;
  std::unique_ptr<RolloutClient> client_;  // of the first process
  std::future<std::optional<std::vector<GeneratedCompletion>>> pending_;
  std::atomic<bool> abandoned_{false}, may_stop_{false};
  std::vector<size_t> counts_;  // prompts of each process
  int64_t version_ = 0, pushes_ = first_push();
  std::shared_ptr<const WeightsPayload> weights_;  // of the last begin()
  double pushed_bytes_ = 0;
  std::vector<std::pair<std::string, double>> metrics_;
};

}  // namespace

std::unique_ptr<RolloutEngine> make_server_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config) {
  return std::make_unique<ServerEngine>(deps, config);
}

}  // namespace hone::train::rl

// Processes that compute the same rows continue the same episodes. Tools and environments have state and need not repeat
// themselves, so the first process calls them and the others receive its results.
#include "hone/base/error.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/rollout_sample.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {
namespace {

Json shared_turn(const NextTurn& next) {
  Json replies = Json::array();
  for (const auto& reply : next.replies) replies.push_back({reply.role, reply.content, reply.images});
  return {{"done", next.done},
          {"keep", next.keep},
          {"continued", next.continued ? Json(*next.continued) : Json()},
          {"replies", std::move(replies)},
          {"splits", next.splits},
          {"infos", next.infos}};
}

NextTurn received_turn(const Json& json) {
  NextTurn next{.done = json.at("done").get<bool>(),
                .keep = json.at("keep").get<size_t>(),
                .continued = {},
                .splits = json.at("splits").get<bool>(),
                .infos = json.at("infos")};
  for (const auto& reply : json.at("replies"))
    next.replies.push_back(
        {reply.at(0).get<std::string>(), reply.at(1).get<std::string>(), reply.at(2).get<std::vector<std::string>>()});
  if (json.at("continued").is_string()) next.continued = json["continued"].get<std::string>();
  return next;
}

class PeerScheduler final : public TurnScheduler {
 public:
  PeerScheduler(const TurnConfig& config, parallel::ProcessGroup& peers, std::shared_ptr<const data::Encoder> encoder)
      : peers_(peers) {
    const auto about = of_first([&]() -> Json {
      scheduler_ = with_inlined_images(make_scheduler(config), encoder, config.text_only);
      return {{"replaces_messages", scheduler_->replaces_messages()}, {"stop_words", scheduler_->stop_words()}};
    });
    replaces_messages_ = about.at("replaces_messages").get<bool>();
    stop_words_ = about.at("stop_words").get<std::vector<std::string>>();
  }

  bool replaces_messages() const override { return replaces_messages_; }
  std::vector<std::string> stop_words() const override { return stop_words_; }

  void start(const std::vector<uint64_t>& episodes, std::vector<data::Conversation>& questions) override {
    const auto begun = of_first([&] {
      scheduler_->start(episodes, questions);
      Json list = Json::array();
      for (const auto& question : questions) list.push_back({messages_to_json(question.messages), question.images});
      return list;
    });
    for (size_t i = 0; i < questions.size(); ++i) {
      questions[i].messages = messages_from_json(begun.at(i).at(0));
      questions[i].images = begun.at(i).at(1).get<std::vector<std::string>>();
    }
  }

  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    const auto followed = of_first([&] {
      Json list = Json::array();
      for (const auto& next : scheduler_->advance(turns)) list.push_back(shared_turn(next));
      return list;
    });
    std::vector<NextTurn> next;
    for (const auto& turn : followed) next.push_back(received_turn(turn));
    return next;
  }

  std::vector<std::pair<std::string, double>> take_counts() override {
    return of_first([&] { return Json(scheduler_->take_counts()); }).get<std::vector<std::pair<std::string, double>>>();
  }

 private:
  // The result of `work` on the first process, also there in the form in which the others get it. A failure ends all of them.
  template <class Work>
  Json of_first(Work work) {
    Json told;
    std::exception_ptr thrown;
    try {
      if (peers_.rank() == 0) told["result"] = work();
    } catch (const StopBetweenSteps&) {
      thrown = std::current_exception();
      told["stop"] = true;
    } catch (const std::exception& problem) {
      thrown = std::current_exception();
      told["problem"] = problem.what();
    }
    const auto texts = peers_.gather_text(told.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (thrown) std::rethrow_exception(thrown);
    const auto first = parse_json(texts.front());
    HONE_CHECK(first.ok(), "the first of the processes with the same rows sent something else than JSON: {}", first.error());
    if (first->contains("stop")) throw StopBetweenSteps();
    if (first->contains("problem"))
      throw UserError(ExitCode::failure,
                      "a turn failed on the process that calls the scheduler: " + first->at("problem").get<std::string>());
    return first->at("result");
  }

  parallel::ProcessGroup& peers_;
  std::unique_ptr<TurnScheduler> scheduler_;  // of the first process
  bool replaces_messages_ = false;
  std::vector<std::string> stop_words_;
};

}  // namespace

std::unique_ptr<TurnScheduler> make_peer_scheduler(const TurnConfig& config, parallel::ProcessGroup& peers,
                                                   std::shared_ptr<const data::Encoder> encoder) {
  return std::make_unique<PeerScheduler>(config, peers, std::move(encoder));
}

}  // namespace hone::train::rl

// Images of turns are read once, by the process that calls the scheduler. Files that a plugin writes may change or be deleted,
// and other processes may be on other machines.
#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/data/placed_media.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {
namespace {

class InlinedImages final : public TurnScheduler {
 public:
  InlinedImages(std::unique_ptr<TurnScheduler> scheduler, std::shared_ptr<const data::Encoder> encoder, bool text_only)
      : scheduler_(std::move(scheduler)), encoder_(std::move(encoder)), text_only_(text_only) {}

  bool replaces_messages() const override { return scheduler_->replaces_messages(); }
  std::vector<std::string> stop_words() const override { return scheduler_->stop_words(); }
  std::vector<std::pair<std::string, double>> take_counts() override { return scheduler_->take_counts(); }

  void start(const std::vector<uint64_t>& episodes, std::vector<data::Conversation>& questions) override {
    std::vector<std::vector<std::string>> rows;
    for (const auto& question : questions) rows.push_back(question.images);
    scheduler_->start(episodes, questions);
    for (size_t i = 0; i < questions.size(); ++i)
      for (auto& image : questions[i].images) {
        if (std::ranges::count(rows[i], image) > 0) continue;
        require_pictures(questions[i], "its environment");
        image = data::inline_image(*encoder_, image).or_throw(ExitCode::bad_data, questions[i].origin.str());
      }
  }

  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    auto next = scheduler_->advance(turns);
    HONE_CHECK(next.size() == turns.size(), "a scheduler without a reply to each completion");
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i].done || turns[i].last) continue;
      const auto problem = inline_images(next[i], turns[i]);
      if (!problem) continue;
      log::warning("{}: an image of turn {} is unusable, and the episode ends there: {}", turns[i].question->origin.str(),
                   turns[i].turn, problem->message);
      next[i] = NextTurn{.infos = std::move(next[i].infos)};
    }
    return next;
  }

 private:
  std::optional<Error> inline_images(NextTurn& next, const TurnInput& turn) const {
    for (auto& reply : next.replies)
      for (auto& image : reply.images) {
        require_pictures(*turn.question, fmt::format("turn {}", turn.turn));
        auto content = data::inline_image(*encoder_, image);
        if (!content) return Error{content.error()};
        image = std::move(*content);
      }
    return std::nullopt;
  }

  void require_pictures(const data::Conversation& question, const std::string& source) const {
    const auto found = fmt::format("{}: {} brings images", question.origin.str(), source);
    if (!encoder_->pictures()) throw UserError(ExitCode::bad_data, found + ", which this model does not take");
    if (text_only_)
      throw UserError(ExitCode::usage, found + ", and a server of the run gets text alone",
                      "load the teacher into the run (`teacher.folder`), and let `hone rollout` or the training processes "
                      "generate, not servers of OpenAI's completions API");
  }

  std::unique_ptr<TurnScheduler> scheduler_;
  std::shared_ptr<const data::Encoder> encoder_;
  bool text_only_;
};

}  // namespace

std::unique_ptr<TurnScheduler> with_inlined_images(std::unique_ptr<TurnScheduler> scheduler,
                                                   std::shared_ptr<const data::Encoder> encoder, bool text_only) {
  return std::make_unique<InlinedImages>(std::move(scheduler), std::move(encoder), text_only);
}

}  // namespace hone::train::rl

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
  InlinedImages(std::unique_ptr<TurnScheduler> scheduler, std::shared_ptr<const data::Encoder> encoder)
      : scheduler_(std::move(scheduler)), encoder_(std::move(encoder)) {}

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
    if (encoder_->pictures()) return;
    throw UserError(ExitCode::bad_data,
                    fmt::format("{}: {} brings images, which this model does not take", question.origin.str(), source));
  }

  std::unique_ptr<TurnScheduler> scheduler_;
  std::shared_ptr<const data::Encoder> encoder_;
};

}  // namespace

std::unique_ptr<TurnScheduler> with_inlined_images(std::unique_ptr<TurnScheduler> scheduler,
                                                   std::shared_ptr<const data::Encoder> encoder) {
  return std::make_unique<InlinedImages>(std::move(scheduler), std::move(encoder));
}

}  // namespace hone::train::rl

#include "hone/train/rl/turns/turns_ahead.h"

#include "hone/base/error.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/gather.h"

namespace hone::train::rl {

TurnsAhead::TurnsAhead(const TurnConfig& config, const TurnLoop::LoopDeps& deps) : group_(deps.group), encoder_(deps.encoder) {
  if (group_.rank() != 0) return;
  loop_ = std::make_unique<TurnLoop>(config, TurnLoop::LoopDeps{deps.encoder, alone_, deps.max_completion_length, deps.context});
}

TurnsAhead::~TurnsAhead() {
  abandoned_ = true;
  if (pending_.valid()) pending_.wait();
}

void TurnsAhead::begin(std::vector<RolloutSample> all, std::vector<uint64_t> seeds, RolloutEngine& engine, int64_t version) {
  may_stop_ = false;  // until a caller waits
  engine_ = engine.detach(version, [this] { return abandoned_ || (may_stop_ && StopSignal::requested() != Stop::none); });
  if (!engine_) return;
  pending_ = std::async(std::launch::async, [this, all = std::move(all), seeds = std::move(seeds), version]() mutable {
    loop_->run(all, seeds, *engine_, version);
    return std::move(all);
  });
}

void TurnsAhead::finish(std::vector<RolloutSample>& own, RolloutEngine& engine, bool may_stop) {
  may_stop_ = may_stop;
  Json written = Json::array();
  bool stop = false;
  std::optional<UserError> problem;
  try {
    if (pending_.valid())
      for (const auto& sample : pending_.get()) written.push_back(to_json(sample));
  } catch (const StopBetweenSteps&) {
    stop = true;
  } catch (const UserError& found) {
    problem = found;
  }
  if (group_.sum(stop) > 0) throw StopBetweenSteps();
  if (group_.sum(problem.has_value()) > 0)
    throw FailedBetweenSteps(
        problem.value_or(UserError(ExitCode::failure, "there are no completions; the first process says why")));
  Json told{{"samples", std::move(written)}, {"metrics", loop_ ? loop_->metrics() : metrics_}};
  const auto texts = gather({told.dump(-1, ' ', false, Json::error_handler_t::replace)}, group_);
  const auto first = parse_json(texts.front());
  HONE_CHECK(first.ok(), "the first process sent something else than JSON: {}", first.error());
  const auto begin = own.size() * static_cast<size_t>(group_.rank());
  for (size_t i = 0; i < own.size(); ++i) read_json(first->at("samples").at(begin + i), *encoder_, own[i]);
  metrics_ = first->at("metrics").get<std::vector<std::pair<std::string, double>>>();
  engine.rejoin();
}

}  // namespace hone::train::rl

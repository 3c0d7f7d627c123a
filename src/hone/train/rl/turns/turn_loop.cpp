#include "hone/train/rl/turns/turn_loop.h"

#include <algorithm>
#include <utility>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/rng.h"
#include "hone/train/rl/run_together.h"

namespace hone::train::rl {
namespace {

constexpr int64_t kTurnsWithoutLimit = 8, kTokensOfReplies = 512;  // that fit into the engine

// A separate random stream for each turn of an episode.
uint64_t turn_seed(uint64_t episode, int64_t turn) {
  return turn == 1 ? episode : Rng(episode, static_cast<uint64_t>(turn)).next();
}

// A scheduler is given texts and images, and returns them.
bool is_unchanged(const data::Conversation& begun, const data::Conversation& row) {
  const auto same = [](const auto& one, const auto& other) { return one.role == other.role && one.content == other.content; };
  return begun.images == row.images && std::ranges::equal(begun.messages, row.messages, same);
}

}  // namespace

TurnLoop::TurnLoop(const TurnConfig& config, LoopDeps deps) : config_(config), deps_(std::move(deps)) {
  const bool has_images = deps_.encoder->pictures() && config_.scheduler == "hermes_tools";
  config_.tools.shows_images = has_images && !config_.text_only;
  if (has_images && config_.text_only && deps_.group.is_main())
    log::warn_once("images in the results of tools are shown as [image]: a server of the run gets text alone");
  scheduler_ = deps_.peers ? make_peer_scheduler(config_, *deps_.peers, deps_.encoder)
                           : with_inlined_images(make_scheduler(config_), deps_.encoder, config_.text_only);
}

int64_t TurnLoop::longest_episode(const std::optional<TurnConfig>& config, int64_t max_completion_length) {
  if (!config || config->limits_total) return max_completion_length;
  const auto turns = config->max_turns > 0 ? config->max_turns : kTurnsWithoutLimit;
  return turns * max_completion_length + (turns - 1) * kTokensOfReplies;
}

ContextLimits TurnLoop::context_limits(const std::optional<TurnConfig>& config, const data::Encoder& encoder,
                                       int64_t longest_prompt, int64_t max_completion_length, int64_t model_context) {
  const auto text = std::min(model_context, longest_prompt + longest_episode(config, max_completion_length));
  return {config && config->may_bring_images() && encoder.pictures() ? model_context : text, text};
}

// A failure on one process stops all of them before they wait for each other.
template <class Work>
void TurnLoop::together(Work work) {
  run_together(deps_.group, "a turn", std::move(work));
}

void TurnLoop::start(std::vector<RolloutSample>& samples, const std::vector<uint64_t>& seeds) {
  if (!scheduler_->replaces_messages()) return;
  std::vector<data::Conversation> questions;
  for (const auto& sample : samples) questions.push_back(sample.prompt->question);
  scheduler_->start(seeds, questions);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (is_unchanged(questions[i], samples[i].prompt->question)) continue;
    Prompt prompt{.row = samples[i].prompt->row, .question = std::move(questions[i]), .ids = {}};
    auto rendered = prompt.question;
    const auto origin = std::exchange(rendered.origin, {});  // an environment's text must not name files that are read
    data::reserve_tags(*deps_.encoder, rendered);
    prompt.ids =
        deps_.encoder->encode_prompt(rendered, &prompt.pictures, &prompt.sounds).or_throw(ExitCode::bad_data, origin.str());
    if (prompt.has_media()) prompt.sources = data::media_sources(rendered);
    if (static_cast<int64_t>(prompt.ids.size()) >= deps_.context.max_model_len)
      throw UserError(ExitCode::bad_data,
                      fmt::format("{}: the environment begins with {} tokens; the engine holds {}", origin.str(),
                                  prompt.ids.size(), deps_.context.max_model_len),
                      "raise `vllm_max_model_len`");
    samples[i].prompt = std::make_shared<const Prompt>(std::move(prompt));
    samples[i].turns.own_prompt = true;
  }
}

// The episodes that continue.
std::vector<size_t> TurnLoop::take_turn(std::vector<Episode>& episodes, const std::vector<size_t>& active, int64_t turn) {
  const bool last = config_.max_turns > 0 && turn >= config_.max_turns;
  std::vector<TurnInput> turns;
  for (auto index : active) turns.push_back(episodes[index].input(last));
  const auto next = scheduler_->advance(turns);
  std::vector<size_t> going;
  for (size_t i = 0; i < active.size(); ++i) {
    auto& episode = episodes[active[i]];
    episode.add_infos(next[i].infos);
    if (last || next[i].done) continue;
    const auto goes_on = episode.follow(next[i], *deps_.encoder);
    if (!goes_on) throw UserError(ExitCode::bad_data, goes_on.error());
    if (*goes_on) going.push_back(active[i]);
  }
  return going;
}

void TurnLoop::run(std::vector<RolloutSample>& samples, const std::vector<uint64_t>& seeds, RolloutEngine& engine,
                   int64_t version) {
  together([&] { start(samples, seeds); });
  std::vector<Episode> episodes;
  std::vector<size_t> active;
  const EpisodeLimits limits{deps_.max_completion_length, deps_.context.max_model_len, config_.limits_total,
                             deps_.context.max_text_len};
  for (size_t i = 0; i < samples.size(); ++i) {
    const bool again = i > 0 && samples[i - 1].prompt == samples[i].prompt;  // episodes of one prompt see the same media
    auto media = again ? episodes.back().media() : samples[i].prompt->media();
    episodes.emplace_back(samples[i], seeds[i], limits, *deps_.encoder, std::move(media));
    active.push_back(i);
  }
  for (int64_t turn = 1; deps_.group.sum(static_cast<double>(active.size())) > 0; ++turn) {
    std::vector<RolloutEngine::Question> questions;
    for (auto index : active)
      questions.push_back(
          {&episodes[index].context(), turn_seed(episodes[index].seed(), turn), episodes[index].room(), episodes[index].media()});
    turn == 1 ? engine.begin(questions, version) : engine.begin_again(questions);
    auto generated = engine.finish();
    for (size_t i = 0; i < active.size(); ++i) episodes[active[i]].take(std::move(generated[i]));
    together([&] { active = take_turn(episodes, active, turn); });
  }
  note(episodes);
}

void TurnLoop::note(const std::vector<Episode>& episodes) {
  double turns = 0;
  for (const auto& episode : episodes) turns += static_cast<double>(episode.sample().turns.count);
  const auto count = deps_.group.sum(static_cast<double>(episodes.size()));
  metrics_ = {{"num_turns", deps_.group.sum(turns) / count}};
  for (const auto& [name, sum] : scheduler_->take_counts()) metrics_.emplace_back(name, deps_.group.sum(sum) / count);
}

engine::SamplingParams with_stop_words(engine::SamplingParams sampling, const TurnLoop* turns) {
  if (turns)
    for (const auto& word : turns->stop_words()) sampling.stop.push_back(word);
  return sampling;
}

}  // namespace hone::train::rl

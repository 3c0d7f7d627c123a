// Schedulers and environments registered by Python plugins, run in a separate worker process.
#include <algorithm>
#include <utility>

#include "hone/base/log.h"
#include "hone/data/datasets/write_rows.h"
#include "hone/data/placed_media.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {
namespace {

std::vector<data::Message> messages_of(const Json& list) {
  std::vector<data::Message> messages;
  for (const auto& message : list)
    messages.push_back({.role = message.at("role").get<std::string>(), .content = message.at("content").get<std::string>()});
  return messages;
}

// Images of the conversation by their number, others by their source.
std::vector<std::string> images_of(const Json& list, const std::vector<std::string>& known) {
  std::vector<std::string> images;
  for (const auto& image : list) images.push_back(image.is_string() ? image.get<std::string>() : known.at(image.get<size_t>()));
  return images;
}

// Tags of all messages are those of the images, in order. Images without a tag come first.
std::vector<ReplyMessage> replies_of(const std::vector<data::Message>& messages, const std::vector<std::string>& images) {
  size_t tags = 0;
  for (const auto& message : messages) tags += data::count_image_tags(message.content);
  size_t untagged = images.size() - std::min(images.size(), tags);
  auto next = images.begin();
  std::vector<ReplyMessage> replies;
  for (const auto& message : messages) {
    const auto own = std::exchange(untagged, 0) + data::count_image_tags(message.content);
    const auto end = next + std::min<ptrdiff_t>(static_cast<ptrdiff_t>(own), images.end() - next);
    replies.push_back({message.role, message.content, {next, end}});
    next = end;
  }
  return replies;
}

Json tools_json(const data::Conversation& question) {
  if (question.tools.empty()) return nullptr;
  auto tools = parse_json(question.tools);
  return tools ? *tools : Json();
}

class PluginScheduler final : public TurnScheduler {
 public:
  explicit PluginScheduler(const TurnConfig& config)
      : name_(config.scheduler),
        worker_(config.plugins, {},
                {{"scheduler", config.scheduler},
                 {"max_turns", config.max_turns > 0 ? Json(config.max_turns) : Json()},
                 {"gym_env", config.gym_env.empty() ? Json() : Json(config.gym_env)},
                 {"allow_remote", config.tools.allow_remote}}) {
    worker_.titles();  // starts it: an unusable plugin is reported now
  }

  bool replaces_messages() const override { return true; }

  void start(const std::vector<uint64_t>& episodes, std::vector<data::Conversation>& questions) override {
    std::vector<Json> rows;
    for (size_t i = 0; i < questions.size(); ++i) rows.push_back(row_of(episodes[i], questions[i], questions[i].messages));
    const auto begun = run("start", rows);
    for (size_t i = 0; i < questions.size(); ++i) {
      if (!begun[i])
        throw UserError(
            ExitCode::failure,
            fmt::format("the scheduler {} failed at the start of {}: {}", name_, questions[i].origin.str(), begun[i].error()),
            "fix it, and resume the run from its last checkpoint with `resume_from_checkpoint`");
      questions[i].messages = messages_of(begun[i]->at("messages"));
      questions[i].images = images_of(begun[i]->at("images"), questions[i].images);
    }
  }

  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    const auto results = run_turns(turns);
    std::vector<NextTurn> next;
    size_t failed = 0, lost = 0;
    for (size_t i = 0; i < turns.size(); ++i) {
      next.push_back(results[i] ? next_of(*results[i]) : NextTurn{});
      if (results[i] && results[i]->value("lost", false)) ++lost, ++failures_;
      if (results[i]) continue;
      ++failed, ++failures_;
      log::warning("the scheduler {} failed at turn {} of {}: {}; the episode ends there ({} such so far)", name_, turns[i].turn,
                   turns[i].question->origin.str(), results[i].error(), failures_);
    }
    if (lost > 0)
      log::warning("the scheduler {} lost the environments of {} episodes with its worker; they end at turn {} ({} such so far)",
                   name_, lost, turns.front().turn, failures_);
    if (!turns.empty() && failed == turns.size())
      throw UserError(ExitCode::failure, fmt::format("the scheduler {} failed on every turn: {}", name_, results[0].error()),
                      "fix it, and resume the run from its last checkpoint with `resume_from_checkpoint`; `reward_timeout` sets "
                      "how long one row may take");
    return next;
  }

  std::vector<std::pair<std::string, double>> take_counts() override {
    return {{"plugins/failures", std::exchange(failures_, 0)}};
  }

 private:
  static std::string episode_id(uint64_t episode) { return fmt::format("{:016x}", episode); }

  // All that a worker needs to begin an episode.
  static Json row_of(uint64_t episode, const data::Conversation& question, const std::vector<data::Message>& messages) {
    return {{"episode", episode_id(episode)},
            {"messages", data::messages_json(messages)},
            {"columns", question.extra.is_object() ? question.extra : Json::object()},
            {"tools", tools_json(question)},
            {"images", question.images},
            {"videos", data::media_columns(question).value("videos", Json::array())},
            {"audios", question.audios}};
  }

  // The worker keeps the media and columns of an episode, which are large. A new worker gets them again.
  std::vector<Result<Json>> run_turns(const std::vector<TurnInput>& turns) {
    std::vector<Json> rows, unknown;
    for (const auto& turn : turns)
      rows.push_back({{"episode", episode_id(turn.episode)},
                      {"messages", data::messages_json(*turn.messages)},
                      {"text", turn.text},
                      {"turn", turn.turn},
                      {"truncated", turn.truncated}});
    auto results = run("turn", rows);
    std::vector<size_t> indices;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (!results[i] || !results[i]->value("unknown", false)) continue;
      indices.push_back(i);
      unknown.push_back(std::move(rows[i]));
      unknown.back().update(row_of(turns[i].episode, *turns[i].question, *turns[i].messages));
    }
    if (unknown.empty()) return results;
    auto again = run("turn", unknown);
    for (size_t i = 0; i < indices.size(); ++i) results[indices[i]] = std::move(again[i]);
    return results;
  }

  std::vector<Result<Json>> run(const std::string& action, const std::vector<Json>& rows) {
    const auto stops = [] { return StopSignal::requested() != Stop::none; };
    auto results = worker_.each(action, rows, stops);
    if (stops()) throw StopBetweenSteps();
    return results;
  }

  static NextTurn next_of(const Json& result) {
    NextTurn next{.done = result.at("done").get<bool>(), .infos = result.at("infos")};
    if (result.contains("continued")) {
      next.keep = result.at("keep").get<size_t>();
      next.continued = result["continued"].get<std::string>();
    }
    if (result.contains("replies"))
      next.replies = replies_of(messages_of(result["replies"]), images_of(result.value("images", Json::array()), {}));
    return next;
  }

  std::string name_;
  PluginWorker worker_;
  int64_t failures_ = 0;
};

}  // namespace

std::unique_ptr<TurnScheduler> make_plugin_scheduler(const TurnConfig& config) {
  return std::make_unique<PluginScheduler>(config);
}

}  // namespace hone::train::rl

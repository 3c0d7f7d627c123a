// Tool-calling loops: a call is executed and its result returned to the model; a response without a call ends the episode.
#include <algorithm>

#include "hone/data/encode/render_tools.h"
#include "hone/text/templates/agent_format.h"
#include "hone/train/rl/turns/scheduler.h"
#include "hone/train/rl/turns/tool_calls.h"

namespace hone::train::rl {
namespace {

std::vector<std::string> listed_tools(const data::Conversation& question) {
  std::vector<std::string> names;
  if (question.tools.empty()) return names;
  try {
    for (const auto& tool : data::parse_tools(question.tools))
      if (const auto name = text::function_of(tool).value("name", Json()); name.is_string())
        names.push_back(name.get<std::string>());
  } catch (const text::FormatError&) {
    // the row's prompt was rendered, so these tools have a valid form
  }
  return names;
}

class ToolScheduler : public TurnScheduler {
 public:
  explicit ToolScheduler(const ToolConfig& config) : toolbox_(config) {}

  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    std::vector<Toolbox::Call> calls;
    std::vector<size_t> counts;
    for (const auto& turn : turns) {
      auto found = turn.truncated || turn.last ? std::vector<Toolbox::Call>{} : calls_in(turn.text);
      const auto listed = listed_tools(*turn.question);
      for (auto& call : found) call.listed = listed, calls.push_back(std::move(call));
      counts.push_back(found.size());
    }
    const auto results = toolbox_.call_all(calls);
    std::vector<NextTurn> next;
    auto first = results.begin();
    for (size_t i = 0; i < turns.size(); ++i) {
      const std::vector<ToolResult> own(first, first + static_cast<ptrdiff_t>(counts[i]));
      first += static_cast<ptrdiff_t>(counts[i]);
      next.push_back(own.empty() ? NextTurn{} : reply(turns[i], own));
      count(turns[i].episode, own, next.back());
    }
    return next;
  }

  std::vector<std::pair<std::string, double>> take_counts() override {
    episodes_.clear();
    return {{"tools/calls", std::exchange(called_, 0)}, {"tools/failures", std::exchange(failed_, 0)}};
  }

 protected:
  virtual std::vector<Toolbox::Call> calls_in(const std::string& text) const = 0;
  virtual NextTurn reply(const TurnInput& turn, const std::vector<ToolResult>& results) const = 0;

 private:
  struct Calls {
    int64_t made = 0, failed = 0;
  };
  void count(uint64_t episode, const std::vector<ToolResult>& results, NextTurn& next) {
    auto& so_far = episodes_[episode];
    const auto failed = std::ranges::count_if(results, &ToolResult::failed);
    so_far.made += static_cast<int64_t>(results.size());
    so_far.failed += failed;
    called_ += static_cast<double>(results.size());
    failed_ += static_cast<double>(failed);
    next.infos = {{"tool_calls", so_far.made}, {"tool_failures", so_far.failed}};
  }

  Toolbox toolbox_;
  std::map<uint64_t, Calls> episodes_;
  double called_ = 0, failed_ = 0;
};

// Results are tool messages, rendered by the template.
class HermesTools final : public ToolScheduler {
 public:
  using ToolScheduler::ToolScheduler;

 protected:
  std::vector<Toolbox::Call> calls_in(const std::string& text) const override { return hermes_calls(text); }
  NextTurn reply(const TurnInput&, const std::vector<ToolResult>& results) const override {
    NextTurn next{.done = false};
    for (const auto& result : results) next.replies.push_back({"tool", result.text, result.images});
    return next;
  }
};

// Results are part of the response itself, after "Observation:"; its images are "[image]".
class ReactTools final : public ToolScheduler {
 public:
  using ToolScheduler::ToolScheduler;
  std::vector<std::string> stop_words() const override { return {kObservation}; }

 protected:
  std::vector<Toolbox::Call> calls_in(const std::string& text) const override { return react_calls(text); }
  NextTurn reply(const TurnInput& turn, const std::vector<ToolResult>& results) const override {
    std::string text;
    if (!turn.text.ends_with(kObservation)) text = (turn.text.ends_with('\n') ? "" : "\n") + std::string(kObservation);
    text += results.front().text;
    if (!text.ends_with('\n')) text += '\n';
    return {.done = false, .continued = std::move(text)};
  }

 private:
  static constexpr const char* kObservation = "Observation:";
};

}  // namespace

std::unique_ptr<TurnScheduler> make_hermes_tools(const ToolConfig& config) { return std::make_unique<HermesTools>(config); }
std::unique_ptr<TurnScheduler> make_react_tools(const ToolConfig& config) { return std::make_unique<ReactTools>(config); }

}  // namespace hone::train::rl

#include "hone/serve/chat/choices.h"

#include <algorithm>
#include <iterator>

#include "hone/base/fault_injection.h"
#include "hone/base/file.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {
namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

ChoiceStream::ChoiceStream(Context& context, std::shared_ptr<Generation> generation,
                           const std::vector<OutputParser::Config>& parsers, int64_t prompt_tokens, bool whole)
    : context_(context),
      generation_(std::move(generation)),
      choices_(parsers.begin(), parsers.end()),
      usage_{.prompt = prompt_tokens},
      whole_(whole),
      began_(Clock::now()),
      last_(began_) {}

void ChoiceStream::keep_time(size_t tokens) {
  if (tokens == 0) return;
  auto now = Clock::now();
  if (std::exchange(first_, false))
    context_.metrics.first_token(seconds(now - began_));
  else
    context_.metrics.inter_token_latency(seconds(now - last_));
  last_ = now;
}

// Streams send each log-probability once and drop it.
void ChoiceStream::keep_logprobs(Choice& choice, engine::RequestOutput& output) {
  if (!whole_) return;
  logprobs_ += count_logprobs(output);
  if (logprobs_ > kMostLogprobs)
    throw ApiError(400,
                   fmt::format("the response has more than {} log-probabilities; ask for fewer, or stream it", kMostLogprobs),
                   "logprobs", "too_many_logprobs");
  if (output.eos_logprob) choice.end_logprob = output.eos_logprob;
  if (!output.prompt_logprobs.empty()) choice.prompt_logprobs = std::move(output.prompt_logprobs);
  std::ranges::move(output.logprobs, std::back_inserter(choice.logprobs));
}

// An incomplete call is not a call; it is returned as text. Streams have sent it already.
void ChoiceStream::drop_incomplete_call(Choice& choice) {
  if (choice.parser.incomplete_call().empty()) return;
  choice.calls.pop_back();
  choice.text += choice.parser.incomplete_call();
}

ChoiceStream::ChoiceDelta ChoiceStream::take(Event& event) {
  auto& output = event.output;
  auto& choice = choices_[event.choice];
  keep_time(output.tokens.size());
  choice.tokens += static_cast<int64_t>(output.tokens.size());
  usage_.completion += static_cast<int64_t>(output.tokens.size());
  usage_.cached = std::max(usage_.cached, output.cached_tokens);
  keep_logprobs(choice, output);
  ChoiceDelta news{event.choice, choice.parser.push(output.text), &output};
  if (output.finish != engine::FinishReason::none) {
    choice.finish = output.finish;
    choice.stop_string = output.stop_string;
    for (auto& delta : choice.parser.finish()) news.deltas.push_back(std::move(delta));
  }
  bool thinks = !news.deltas.empty() &&
                std::ranges::all_of(news.deltas, [](const Delta& delta) { return delta.kind == Delta::Kind::reasoning; });
  if (thinks) usage_.thought += static_cast<int64_t>(output.tokens.size());
  for (const auto& delta : news.deltas) {
    if (delta.kind == Delta::Kind::text)
      choice.text += delta.text;
    else if (delta.kind == Delta::Kind::reasoning)
      choice.thought += delta.text;
    else if (delta.kind == Delta::Kind::call)
      choice.calls.push_back({fresh_id("call_"), delta.text, ""});
    else
      choice.calls[delta.call].arguments += delta.text;
  }
  if (whole_) drop_incomplete_call(choice);
  return news;
}

asio::awaitable<std::vector<ChoiceStream::ChoiceDelta>> ChoiceStream::next() {
  events_.clear();
  std::vector<ChoiceDelta> news;
  if (!generation_->finished() || generation_->has_pending_events()) events_ = co_await generation_->next();
  if (generation_->interrupted() && !generation_->finished()) throw interruption();
  for (auto& event : events_) {
    if (event.output.finish == engine::FinishReason::error) throw failure_of(event);
    if (event.output.finish == engine::FinishReason::cancelled) throw interruption();
    news.push_back(take(event));
  }
  if (generation_->finished() && !generation_->has_pending_events() && !std::exchange(counted_, true))
    context_.metrics.finished(usage_.prompt, usage_.completion, seconds(Clock::now() - began_));
  co_return news;
}

size_t count_logprobs(const engine::RequestOutput& output) {
  size_t count = 0;
  for (const auto* positions : {&output.logprobs, &output.prompt_logprobs})
    for (const auto& position : *positions) count += 1 + position.top.size();
  return count;
}

asio::awaitable<void> ChoiceStream::finish() {
  for (bool more = true; more;) {
    auto news = co_await next();
    more = !news.empty();
  }
}

void keep_result(const Context& context, const data::Conversation& question, const ChoiceStream& choices,
                 const std::string& model) {
  if (context.result_file.empty()) return;
  Json messages = Json::array();
  for (const auto& message : question.messages) messages.push_back({{"role", message.role}, {"content", message.content}});
  for (size_t i = 0; i < choices.size(); ++i) {
    auto row = messages;
    row.push_back({{"role", "assistant"}, {"content", choices.at(i).text}});
    append_line(
        context.result_file,
        dump({{"response", choices.at(i).text}, {"model", model}, {"messages", row}, {"usage", usage_json(choices.usage())}}));
  }
}

asio::awaitable<void> send_events(Exchange& exchange, Context& context, ChoiceStream& choices, EventWriter& writer) {
  auto news = co_await choices.next();
  bool listening = co_await exchange.start_events();
  std::string out;
  writer.open(choices, out);
  std::optional<ApiError> failure;
  while (!news.empty()) {
    size_t parts = 0;
    for (const auto& item : news) parts += 1 + count_logprobs(*item.output);
    co_await run_inline_or_on_worker(context, parts, [&] {
      for (const auto& item : news) writer.on_delta(item, choices, out);
    });
    fault("serve.event");
    if (listening) listening = co_await exchange.send(out);
    if (!listening) co_return;
    out.clear();
    try {
      news = co_await choices.next();
    } catch (const ApiError& problem) {
      failure = problem;
      break;
    }
  }
  if (failure)
    writer.fail(*failure, out);
  else
    writer.close(choices, out);
  listening = co_await exchange.send(out);
  if (listening) co_await exchange.finish_events();
}

}  // namespace hone::serve

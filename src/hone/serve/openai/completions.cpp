#include "hone/serve/openai/completions.h"

#include <algorithm>
#include <numeric>

#include "hone/serve/chat/event_stream.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {
namespace {

std::vector<engine::Request> requests_of(const CompletionTask& task, const ServedModel& served, const std::string& adapter) {
  std::vector<engine::Request> requests;
  for (const auto& prompt : task.prompts) {
    engine::Request request{.prompt = prompt, .sampling = task.sampling, .adapter = adapter, .priority = task.priority};
    if (task.best_of > task.n && !request.sampling.logprobs) request.sampling.logprobs = 0;  // to tell which are likeliest
    fit_context(request, std::max<int64_t>(task.max_tokens, 1), served);
    add_requests(request, task.best_of, requests);
  }
  return requests;
}

double mean_logprob(const Answer& answer) {
  if (answer.logprobs.empty()) return 0;
  double sum = 0;
  for (const auto& position : answer.logprobs) sum += position.chosen.logprob;
  return sum / static_cast<double>(answer.logprobs.size());
}

// Which of a prompt's answers are given back: the n likeliest, in the order they were made.
std::vector<size_t> chosen_answers(const CompletionTask& task, const Answers& answers, size_t prompt) {
  std::vector<size_t> order(static_cast<size_t>(task.best_of));
  std::iota(order.begin(), order.end(), prompt * order.size());
  if (task.best_of == task.n) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return mean_logprob(answers.answer(a)) > mean_logprob(answers.answer(b)); });
  order.resize(static_cast<size_t>(task.n));
  return order;
}

Json logprobs_of(const CompletionTask& task, const Answer& answer, const std::vector<text::TokenId>& prompt,
                 const text::Tokenizer& tokenizer) {
  if (!task.sampling.logprobs) return nullptr;
  CompletionLogprobs lists;
  if (task.echo) {
    lists.add_first(prompt[0], tokenizer);
    for (const auto& position : answer.prompt_logprobs) lists.add(position, tokenizer);
  }
  if (!task.only_prompt)
    for (const auto& position : answer.logprobs) lists.add(position, tokenizer);
  return lists.json();
}

Json head(const std::string& model) {
  return {{"id", fresh_id("cmpl-")}, {"object", "text_completion"}, {"created", unix_time()}, {"model", model}};
}

Json completion_json(const CompletionTask& task, const Answers& answers, const text::Tokenizer& tokenizer,
                     const std::string& model) {
  Json choices = Json::array();
  for (size_t prompt = 0; prompt < task.prompts.size(); ++prompt) {
    for (size_t which : chosen_answers(task, answers, prompt)) {
      const auto& answer = answers.answer(which);
      auto text = (task.echo ? tokenizer.decode(task.prompts[prompt]) : "") + (task.only_prompt ? "" : answer.text);
      choices.push_back({{"index", choices.size()},
                         {"text", text},
                         {"logprobs", logprobs_of(task, answer, task.prompts[prompt], tokenizer)},
                         {"finish_reason", finish_json(answer.finish, false)}});
      if (!answer.stop_string.empty()) choices.back()["stop_reason"] = answer.stop_string;
      if (task.sampling.prompt_logprobs && !task.echo)
        choices.back()["prompt_logprobs"] = prompt_logprobs_json(answer.prompt_logprobs, tokenizer);
    }
  }
  Json body = head(model);
  body["choices"] = std::move(choices);
  auto usage = answers.usage();
  if (task.only_prompt) usage.completion = 0;
  body["usage"] = usage_json(usage);
  return body;
}

class CompletionEvents : public EventWriter {
 public:
  CompletionEvents(const CompletionTask& task, const text::Tokenizer& tokenizer, const std::string& model)
      : task_(task), tokenizer_(tokenizer), head_(head(model)), offsets_(task.prompts.size() * static_cast<size_t>(task.n)) {}

  void open(const Answers&, std::string& out) override {
    for (size_t i = 0; task_.echo && i < offsets_.size(); ++i)
      out += chunk(i, tokenizer_.decode(task_.prompts[i / static_cast<size_t>(task_.n)]), nullptr, nullptr, nullptr);
  }

  void news(const Answers::News& news, const Answers& answers, std::string& out) override {
    std::string text;
    for (const auto& delta : news.deltas) text += delta.text;
    bool ended = news.output->finish != engine::FinishReason::none;
    if (text.empty() && !ended && news.output->logprobs.empty()) return;
    CompletionLogprobs lists{.offset = offsets_[news.choice]};
    for (const auto& position : news.output->logprobs) lists.add(position, tokenizer_);
    offsets_[news.choice] = lists.offset;
    auto usage = task_.stream.usage_in_every_event ? usage_json(answers.usage()) : Json();
    auto logprobs = task_.sampling.logprobs ? lists.json() : Json();
    out += chunk(news.choice, text, std::move(logprobs), finish_json(news.output->finish, false), std::move(usage));
  }

  void close(const Answers& answers, std::string& out) override {
    if (task_.stream.usage_at_end) {
      Json data = head_;
      data["choices"] = Json::array();
      data["usage"] = usage_json(answers.usage());
      out += event(data);
    }
    out += kDone;
  }

  void fail(const Problem& problem, std::string& out) override {
    out += event(problem_json(problem));
    out += kDone;
  }

 private:
  std::string chunk(size_t choice, const std::string& text, Json logprobs, Json finish, Json usage) const {
    Json data = head_;
    data["choices"] = Json::array(
        {{{"index", choice}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish)}}});
    if (task_.stream.usage_at_end || task_.stream.usage_in_every_event) data["usage"] = std::move(usage);
    return event(data);
  }

  const CompletionTask& task_;
  const text::Tokenizer& tokenizer_;
  Json head_;
  std::vector<int64_t> offsets_;
};

}  // namespace

asio::awaitable<void> completions(Exchange& exchange, Context& context) {
  context.check_room();
  auto task = co_await aside(context, [&] { return read_completion(parsed_body(exchange.request()), context.served); });
  exchange.request().body = {};
  auto target = context.target_of(task.model);
  auto requests = requests_of(task, context.served, target.adapter);
  auto choices = task.prompts.size() * static_cast<size_t>(task.best_of);
  int64_t prompt_tokens = 0;
  for (const auto& prompt : task.prompts) prompt_tokens += static_cast<int64_t>(prompt.size());
  auto generation = context.admit(exchange, std::move(requests));
  AnswerParser::Config plain{.tools = ToolFormat::none, .split_thoughts = false};
  Answers answers(context, std::move(generation), plain, choices, prompt_tokens);
  const auto& tokenizer = *context.served.tokenizer;
  if (task.stream.on) {
    CompletionEvents events(task, tokenizer, target.name);
    co_await send_events(exchange, answers, events);
    co_return;
  }
  co_await answers.finish();
  co_await exchange.respond(json_response(completion_json(task, answers, tokenizer, target.name)));
}

}  // namespace hone::serve

#include "hone/serve/openai/completions.h"

#include <algorithm>
#include <numeric>

#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/length.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {
namespace {

std::vector<engine::Request> requests_of(const CompletionTask& task, const ServedModel& served, const std::string& adapter,
                                         Exchange& exchange) {
  bool has_header = false;
  std::vector<engine::Request> requests;
  for (const auto& prompt : task.prompts) {
    engine::Request request{.prompt = prompt, .sampling = task.sampling, .adapter = adapter, .priority = task.priority};
    if (task.best_of > task.n && !request.sampling.logprobs) request.sampling.logprobs = 0;  // to rank the completions
    auto reduced = fit_context(request, std::max<int64_t>(task.max_tokens, 1), served);
    if (reduced && !std::exchange(has_header, true))
      exchange.add_header(max_tokens_header(*reduced).first, max_tokens_header(*reduced).second);
    add_requests(request, task.best_of, task.stream.on ? std::nullopt : std::optional(task.max_tokens), requests);
  }
  return requests;
}

// Per token, including the end token: ending early is a choice like any other.
double mean_logprob(const Choice& choice) {
  double sum = choice.end_logprob.value_or(0);
  for (const auto& position : choice.logprobs) sum += position.chosen.logprob;
  auto tokens = choice.logprobs.size() + (choice.end_logprob ? 1 : 0);
  return sum / static_cast<double>(std::max<size_t>(tokens, 1));
}

// The completions to return for a prompt: the n most likely, best first.
std::vector<size_t> chosen_choices(const CompletionTask& task, const ChoiceStream& choices, size_t prompt) {
  std::vector<size_t> order(static_cast<size_t>(task.best_of));
  std::iota(order.begin(), order.end(), prompt * order.size());
  if (task.best_of == task.n) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return mean_logprob(choices.at(a)) > mean_logprob(choices.at(b)); });
  order.resize(static_cast<size_t>(task.n));
  return order;
}

void add_prompt(CompletionLogprobs& lists, const std::vector<text::TokenId>& prompt,
                const std::vector<engine::PositionLogprobs>& positions, const text::TokenBytes& bytes) {
  lists.add_first(prompt[0], bytes);
  for (const auto& position : positions) lists.add(position, bytes);
}

Json logprobs_of(const CompletionTask& task, const Choice& choice, const std::vector<text::TokenId>& prompt,
                 const text::TokenBytes& bytes) {
  if (!task.sampling.logprobs) return nullptr;
  CompletionLogprobs lists;
  if (task.echo) add_prompt(lists, prompt, choice.prompt_logprobs, bytes);
  if (!task.only_prompt)
    for (const auto& position : choice.logprobs) lists.add(position, bytes);
  return lists.json();
}

Json head(const std::string& model) {
  return {{"id", fresh_id("cmpl-")}, {"object", "text_completion"}, {"created", unix_time()}, {"model", model}};
}

Json completion_json(const CompletionTask& task, const ChoiceStream& stream, const text::Tokenizer& tokenizer,
                     const std::string& model) {
  const text::TokenBytes bytes(tokenizer);
  Json choices = Json::array();
  for (size_t prompt = 0; prompt < task.prompts.size(); ++prompt) {
    for (size_t which : chosen_choices(task, stream, prompt)) {
      const auto& choice = stream.at(which);
      auto text = (task.echo ? tokenizer.decode(task.prompts[prompt]) : "") + (task.only_prompt ? "" : choice.text);
      choices.push_back({{"index", choices.size()},
                         {"text", text},
                         {"logprobs", logprobs_of(task, choice, task.prompts[prompt], bytes)},
                         {"finish_reason", finish_json(choice.finish, false)}});
      if (!choice.stop_string.empty()) choices.back()["stop_reason"] = choice.stop_string;
      if (task.sampling.prompt_logprobs && !task.echo)
        choices.back()["prompt_logprobs"] = prompt_logprobs_json(choice.prompt_logprobs, bytes);
    }
  }
  Json body = head(model);
  body["choices"] = std::move(choices);
  auto usage = stream.usage();
  if (task.only_prompt) usage.completion = 0;
  body["usage"] = usage_json(usage);
  return body;
}

class CompletionEvents : public EventWriter {
 public:
  CompletionEvents(const CompletionTask& task, const text::Tokenizer& tokenizer, const std::string& model)
      : task_(task),
        tokenizer_(tokenizer),
        bytes_(tokenizer),
        head_(head(model)),
        choices_(task.prompts.size() * static_cast<size_t>(task.n)) {}

  void open(const ChoiceStream&, std::string&) override {}

  void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) override {
    if (task_.echo && !std::exchange(choices_[news.choice].echoed, true)) echo(news, out);
    std::string text;
    for (const auto& delta : news.deltas) text += delta.text;
    bool ended = news.output->finish != engine::FinishReason::none;
    if (text.empty() && !ended && news.output->logprobs.empty()) return;
    CompletionLogprobs lists{.offset = choices_[news.choice].offset};
    for (const auto& position : news.output->logprobs) lists.add(position, bytes_);
    auto usage = task_.stream.usage_in_every_event ? usage_json(choices.usage()) : Json();
    out += chunk(news.choice, text, taken(lists, news.choice), finish_json(news.output->finish, false), std::move(usage));
  }

  void close(const ChoiceStream& choices, std::string& out) override {
    if (task_.stream.usage_at_end) {
      Json data = head_;
      data["choices"] = Json::array();
      data["usage"] = usage_json(choices.usage());
      out += event(data);
    }
    out += kDone;
  }

  void fail(const ApiError& problem, std::string& out) override { out += event(problem_json(problem)); }

 private:
  struct Choice {
    bool echoed = false;
    int64_t offset = 0;  // offset of the next token
  };

  // The prompt precedes its first completion's token, with its log-probabilities.
  void echo(const ChoiceStream::ChoiceDelta& news, std::string& out) {
    const auto& prompt = task_.prompts[news.choice / static_cast<size_t>(task_.n)];
    CompletionLogprobs lists;
    if (task_.sampling.logprobs) add_prompt(lists, prompt, news.output->prompt_logprobs, bytes_);
    out += chunk(news.choice, tokenizer_.decode(prompt), taken(lists, news.choice), nullptr, nullptr);
  }

  Json taken(const CompletionLogprobs& lists, size_t choice) {
    choices_[choice].offset = lists.offset;
    return task_.sampling.logprobs ? lists.json() : Json();
  }

  std::string chunk(size_t choice, const std::string& text, Json logprobs, Json finish, Json usage) const {
    Json data = head_;
    data["choices"] = Json::array(
        {{{"index", choice}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish)}}});
    if (task_.stream.usage_at_end || task_.stream.usage_in_every_event) data["usage"] = std::move(usage);
    return event(data);
  }

  const CompletionTask& task_;
  const text::Tokenizer& tokenizer_;
  const text::TokenBytes bytes_;
  Json head_;
  std::vector<Choice> choices_;
};

constexpr size_t kMostPrompts = 64;

}  // namespace

asio::awaitable<void> completions(Exchange& exchange, Context& context) {
  auto permit = context.enter(exchange);
  auto task = co_await run_on_worker(context, [&] { return read_completion(parsed_body(exchange), context.served); });
  exchange.drop_body();
  auto target = context.target_of(task.model);
  exchange.set_user(task.user);
  auto requests = requests_of(task, context.served, target.adapter, exchange);
  int64_t prompt_tokens = 0;
  for (const auto& prompt : task.prompts) prompt_tokens += static_cast<int64_t>(prompt.size());
  auto generation = context.admit(exchange, permit, std::move(requests));
  std::vector parsers(task.prompts.size() * static_cast<size_t>(task.best_of), OutputParser::Config{.separate_reasoning = false});
  ChoiceStream choices(context, std::move(generation), parsers, prompt_tokens, !task.stream.on);
  const auto& tokenizer = *context.served.tokenizer;
  if (task.stream.on) {
    CompletionEvents events(task, tokenizer, target.name);
    co_await send_events(exchange, context, choices, events);
    co_return;
  }
  co_await choices.finish();
  auto response = co_await run_inline_or_on_worker(
      context, choices.parts(), [&] { return json_response(completion_json(task, choices, tokenizer, target.name)); });
  co_await exchange.respond(std::move(response));
}

std::vector<std::vector<text::TokenId>> read_prompts(const Json& given, const std::string& where, size_t most,
                                                     bool special_tokens, const ServedModel& served) {
  const auto& tokenizer = *served.tokenizer;
  auto encode = [&](const Json& item, const std::string& field) {
    const auto& text = item.get_ref<const std::string&>();
    refuse_overlong(text, served, false, field);
    return tokenizer.encode(text, {.add_special_tokens = special_tokens});
  };
  if (given.is_string()) return {encode(given, where)};
  if (!given.is_array() || given.empty())
    bad_value(where, fmt::format("found {}; expected a text, a list of texts or token ids", kind_name(given)));
  if (given[0].is_number()) return {read_token_ids(given, where, tokenizer)};
  if (given.size() > most) bad_value(where, fmt::format("found {} items; at most {} go into one request", given.size(), most));
  std::vector<std::vector<text::TokenId>> prompts;
  for (size_t i = 0; i < given.size(); ++i) {
    auto field = fmt::format("{}[{}]", where, i);
    if (given[i].is_string())
      prompts.push_back(encode(given[i], field));
    else if (given[i].is_array())
      prompts.push_back(read_token_ids(given[i], field, tokenizer));
    else
      bad_value(field, fmt::format("found {}; expected a text or token ids", kind_name(given[i])));
  }
  return prompts;
}

CompletionTask read_completion(const Json& body, const ServedModel& served) {
  Fields fields(kCompletion, body);
  CompletionTask task;
  task.model = fields.text("model");
  task.user = fields.text("user");
  task.prompts = read_prompts(fields.json("prompt"), "prompt", kMostPrompts, fields.flag("add_special_tokens", true), served);
  read_sampling(fields, served, task.sampling);
  read_search(fields, served, task.sampling);
  apply_response_format(read_response_format(fields, kCompletion), served, task.sampling);
  if (fields.has("logprobs")) {
    task.sampling.logprobs = fields.integer("logprobs", 0);
    if (*task.sampling.logprobs > served.max_logprobs)
      bad_value("logprobs",
                fmt::format("found {}; this server returns at most {}", *task.sampling.logprobs, served.max_logprobs));
  }
  task.max_tokens = fields.integer("max_tokens", 16);
  task.n = fields.integer("n", 1);
  task.best_of = fields.integer("best_of", task.n);
  if (task.best_of < task.n) bad_value("best_of", fmt::format("found {}; expected at least n, {}", task.best_of, task.n));
  if (fields.flag("use_beam_search", false)) task.sampling.num_beams = std::max(task.sampling.num_beams, task.best_of);
  if (task.sampling.num_beams > 1) task.best_of = task.n;  // beam search finds the most likely ones itself
  task.priority = fields.integer("priority", 0);
  task.echo = fields.flag("echo", false);
  if (task.echo && task.sampling.logprobs) task.sampling.prompt_logprobs = task.sampling.logprobs;
  task.stream = read_stream(fields);
  if (task.stream.on && task.best_of > task.n) bad_value("best_of", "is not supported with stream");
  task.only_prompt = task.max_tokens == 0;
  if (task.only_prompt && (!task.echo || task.stream.on)) bad_value("max_tokens", "0 requires echo, without stream");
  return task;
}

}  // namespace hone::serve

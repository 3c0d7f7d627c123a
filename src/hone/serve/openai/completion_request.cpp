#include "hone/serve/chat/length.h"
#include "hone/serve/chat/task.h"
#include "hone/serve/openai/completions.h"

namespace hone::serve {
namespace {

constexpr size_t kMostPrompts = 64;

}  // namespace

std::vector<std::vector<text::TokenId>> read_prompts(const Json& given, const std::string& where, size_t most,
                                                     bool special_tokens, const ServedModel& served) {
  const auto& tokenizer = *served.tokenizer;
  auto encode = [&](const Json& item, const std::string& place) {
    const auto& text = item.get_ref<const std::string&>();
    refuse_overlong(text, served, false, place);
    return tokenizer.encode(text, {.add_special_tokens = special_tokens});
  };
  if (given.is_string()) return {encode(given, where)};
  if (!given.is_array() || given.empty())
    bad_value(where, fmt::format("found {}; expected a text, a list of texts or token ids", kind_name(given)));
  if (given[0].is_number()) return {read_token_ids(given, where, tokenizer)};
  if (given.size() > most) bad_value(where, fmt::format("found {} items; at most {} go into one request", given.size(), most));
  std::vector<std::vector<text::TokenId>> prompts;
  for (size_t i = 0; i < given.size(); ++i) {
    auto place = fmt::format("{}[{}]", where, i);
    if (given[i].is_string())
      prompts.push_back(encode(given[i], place));
    else if (given[i].is_array())
      prompts.push_back(read_token_ids(given[i], place, tokenizer));
    else
      bad_value(place, fmt::format("found {}; expected a text or token ids", kind_name(given[i])));
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

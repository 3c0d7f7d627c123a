#include "hone/serve/chat/task.h"
#include "hone/serve/openai/completions.h"

namespace hone::serve {
namespace {

constexpr size_t kMostPrompts = 64;

std::vector<text::TokenId> read_tokens(const Json& list, const std::string& where, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> ids;
  for (const auto& item : list) {
    bool known = item.is_number_integer() && item.get<double>() >= 0 && item.get<double>() < static_cast<double>(tokenizer.size());
    if (!known) bad_value(fmt::format("{}[{}]", where, ids.size()), "not a token id of this model");
    ids.push_back(item.get<text::TokenId>());
  }
  return ids;
}

}  // namespace

std::vector<std::vector<text::TokenId>> read_prompts(const Json& given, const std::string& where, size_t most, bool special_tokens,
                                                     const text::Tokenizer& tokenizer) {
  auto encode = [&](const Json& text) { return tokenizer.encode(text.get_ref<const std::string&>(), {.add_special_tokens = special_tokens}); };
  if (given.is_string()) return {encode(given)};
  if (!given.is_array() || given.empty()) bad_value(where, fmt::format("found {}; expected a text, a list of texts or token ids", kind_name(given)));
  if (given[0].is_number()) return {read_tokens(given, where, tokenizer)};
  if (given.size() > most) bad_value(where, fmt::format("found {} items; at most {} go into one request", given.size(), most));
  std::vector<std::vector<text::TokenId>> prompts;
  for (size_t i = 0; i < given.size(); ++i) {
    auto place = fmt::format("{}[{}]", where, i);
    if (given[i].is_string()) prompts.push_back(encode(given[i]));
    else if (given[i].is_array()) prompts.push_back(read_tokens(given[i], place, tokenizer));
    else bad_value(place, fmt::format("found {}; expected a text or token ids", kind_name(given[i])));
  }
  return prompts;
}

CompletionTask read_completion(const Json& body, const ServedModel& served) {
  Fields fields(kCompletion, body);
  CompletionTask task;
  task.model = fields.text("model");
  task.prompts = read_prompts(fields.json("prompt"), "prompt", kMostPrompts, fields.flag("add_special_tokens", true), *served.tokenizer);
  read_sampling(fields, served, task.sampling);
  apply_shape(read_shape(fields, kCompletion), served, task.sampling);
  if (fields.has("logprobs")) {
    task.sampling.logprobs = fields.integer("logprobs", 0);
    if (*task.sampling.logprobs > served.max_logprobs)
      bad_value("logprobs", fmt::format("found {}; this server gives at most {}", *task.sampling.logprobs, served.max_logprobs));
  }
  task.max_tokens = fields.integer("max_tokens", 16);
  task.n = fields.integer("n", 1);
  task.best_of = fields.integer("best_of", task.n);
  if (task.best_of < task.n) bad_value("best_of", fmt::format("found {}; expected at least n, {}", task.best_of, task.n));
  task.priority = fields.integer("priority", 0);
  task.echo = fields.flag("echo", false);
  if (task.echo && task.sampling.logprobs) task.sampling.prompt_logprobs = task.sampling.logprobs;
  task.stream = fields.flag("stream", false);
  if (task.stream && task.best_of > task.n) bad_value("best_of", "does not go with stream");
  const auto& options = fields.json("stream_options");
  if (options.is_object()) task.include_usage = options.value("include_usage", Json(false)) == true;
  return task;
}

}  // namespace hone::serve

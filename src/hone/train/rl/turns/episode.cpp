#include "hone/train/rl/turns/episode.h"

#include <algorithm>
#include <utility>

#include "hone/data/rollout_prompts.h"

namespace hone::train::rl {
namespace {

template <class T>
void append_all(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Text of tools and environments cannot contain special tokens: only the template writes those.
std::vector<text::TokenId> plain_tokens(const text::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.guard_special_tokens = true});
}

std::string without_special_tokens(const text::Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text);
  if (std::erase_if(ids, [&](text::TokenId id) { return tokenizer.is_special(id); }) == 0) return text;
  return tokenizer.decode(ids);
}

}  // namespace

Episode::Episode(RolloutSample& sample, uint64_t seed, const EpisodeLimits& limits)
    : sample_(sample), seed_(seed), limits_(limits), context_(sample.prompt->ids), messages_(sample.prompt->question.messages) {
  sample_.turns.count = 0;
}

void Episode::take(GeneratedCompletion generated) {
  auto& completion = sample_.completion;
  const bool has_logprobs =
      completion.logprobs.size() == completion.tokens.size() && generated.logprobs.size() == generated.tokens.size();
  text_ = generated.text;
  turn_begin_ = completion.tokens.size();
  if (!goes_on_) sample_.turns.answer_begin = turn_begin_;
  append_all(completion.tokens, generated.tokens);
  append_all(context_, generated.tokens);
  completion.loss_mask.resize(completion.tokens.size(), 1);
  if (has_logprobs)
    append_all(completion.logprobs, generated.logprobs);
  else
    completion.logprobs.clear();
  append_all(completion.versions, generated.versions);
  completion.truncated = generated.truncated;
  if (goes_on_)
    messages_.back().content += generated.text;
  else
    messages_.push_back({.role = "assistant", .content = generated.text});
  completion.text = messages_.back().content;
  ++sample_.turns.count;
  sample_.turns.before = std::vector<data::Message>(messages_.begin(), messages_.end() - 1);
}

TurnInput Episode::input(bool last) const {
  return {.episode = seed_,
          .question = &sample_.prompt->question,
          .messages = &messages_,
          .text = text_,
          .turn = sample_.turns.count,
          .truncated = sample_.completion.truncated,
          .last = last};
}

void Episode::append_others(const std::vector<text::TokenId>& ids) {
  auto& completion = sample_.completion;
  append_all(completion.tokens, ids);
  append_all(context_, ids);
  completion.loss_mask.resize(completion.tokens.size(), 0);
  if (!completion.logprobs.empty()) completion.logprobs.resize(completion.tokens.size(), 0);
  if (!completion.versions.empty()) completion.versions.resize(completion.tokens.size(), completion.versions.back());
}

// Cuts the last turn's tokens at this length of its text, and before an end-of-turn token.
void Episode::keep_text(size_t bytes, const data::Encoder& encoder) {
  auto& completion = sample_.completion;
  const auto ends = encoder.stop_ids();
  const std::vector<text::TokenId> turn(completion.tokens.begin() + static_cast<ptrdiff_t>(turn_begin_), completion.tokens.end());
  size_t kept = turn.size();
  while (kept > 0 && std::ranges::count(ends, turn[kept - 1]) > 0) --kept;
  if (bytes < text_.size()) {
    size_t shortest = 0;
    while (shortest < kept && encoder.tokenizer().decode(std::span(turn).first(shortest), true).size() < bytes) ++shortest;
    kept = shortest;
    messages_.back().content.resize(messages_.back().content.size() - (text_.size() - bytes));
    text_.resize(bytes);
  }
  const auto dropped = turn.size() - kept;
  context_.resize(context_.size() - dropped);
  for (size_t i = 0; i < dropped; ++i) completion.tokens.pop_back(), completion.loss_mask.pop_back();
  if (!completion.logprobs.empty()) completion.logprobs.resize(completion.tokens.size());
  if (!completion.versions.empty()) completion.versions.resize(completion.tokens.size());
}

// Whether a turn fits after this context.
bool Episode::has_room(const std::vector<text::TokenId>& context) {
  const bool fits = room() > 0 && static_cast<int64_t>(context.size()) < limits_.max_model_len;
  if (!fits) sample_.completion.truncated = true;
  return fits;
}

// The present sequence is complete. The next one's prompt is all of the conversation, as the template renders it. Without room
// for it the present sequence stays the episode's answer.
Result<bool> Episode::start_round(const std::vector<data::Message>& replies, const data::Encoder& encoder) {
  auto question = sample_.prompt->question;
  question.messages = messages_;
  append_all(question.messages, replies);
  const auto origin = std::exchange(question.origin, {});  // generated text must not name files that are read: <img>path</img>
  auto ids = encoder.encode_prompt(question);
  if (!ids) return Error{fmt::format("{}: {}", origin.str(), ids.error())};
  question.origin = origin;
  if (!has_room(*ids)) return false;
  messages_ = question.messages;
  written_before_ = written();
  auto turns = sample_.turns;
  sample_.earlier.push_back({sample_.prompt, std::exchange(sample_.completion, {}), std::move(turns)});
  context_ = *ids;
  sample_.prompt = std::make_shared<const Prompt>(Prompt{sample_.prompt->row, std::move(question), std::move(*ids)});
  sample_.turns.own_prompt = true;
  goes_on_ = false;
  return true;
}

Result<bool> Episode::follow(const NextTurn& next, const data::Encoder& encoder) {
  if (next.continued) {
    keep_text(next.keep, encoder);
    messages_.back().content += *next.continued;
    append_others(plain_tokens(encoder.tokenizer(), *next.continued));
    goes_on_ = true;
    return has_room(context_);
  }
  if (next.splits) return start_round(next.replies, encoder);
  auto replies = next.replies;
  for (auto& reply : replies)
    if (reply.role == "tool") reply.content = without_special_tokens(encoder.tokenizer(), reply.content);
  auto ids = data::encode_replies(encoder, sample_.prompt->question, replies);
  if (!ids) return Error{ids.error()};
  // A turn that the model ended itself is not ended again.
  const auto& tokens = sample_.completion.tokens;
  if (!ids->empty() && tokens.size() > turn_begin_ && tokens.back() == ids->front()) ids->erase(ids->begin());
  append_others(*ids);
  append_all(messages_, replies);
  goes_on_ = false;
  return has_room(context_);
}

void Episode::add_infos(const Json& infos) {
  if (!infos.is_object()) return;
  for (const auto& [name, value] : infos.items()) sample_.turns.infos[name] = value;
}

}  // namespace hone::train::rl

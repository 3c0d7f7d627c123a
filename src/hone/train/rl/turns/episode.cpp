#include "hone/train/rl/turns/episode.h"

#include <algorithm>
#include <utility>

#include "hone/base/log.h"

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

bool takes_media(const data::Encoder& encoder) { return encoder.pictures() || encoder.sounds(); }

std::string without_special_tokens(const text::Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text);
  if (std::erase_if(ids, [&](text::TokenId id) { return tokenizer.is_special(id); }) == 0) return text;
  return tokenizer.decode(ids);
}

int64_t image_tokens(const std::vector<data::Picture>& pictures) {
  int64_t tokens = 0;
  for (const auto& picture : pictures) tokens += picture.geometry.tokens;
  return tokens;
}

// The messages that follow a completion, as schedulers and rewards get them, and with reserved tags, as they are rendered.
struct Replies {
  std::vector<data::Message> messages, rendered;
  std::vector<std::string> images;

  Replies(const std::vector<ReplyMessage>& replies, const data::Encoder& encoder) {
    for (const auto& reply : replies) {
      data::Message message{.role = reply.role, .content = reply.content};
      if (reply.role == "tool") message.content = without_special_tokens(encoder.tokenizer(), message.content);
      rendered.push_back(message);
      if (takes_media(encoder)) data::reserve_image_tags(rendered.back(), reply.images.size());
      for (auto tags = data::count_image_tags(message.content); tags < reply.images.size(); ++tags)
        message.content.insert(0, data::MediaTags().image);
      messages.push_back(std::move(message));
      append_all(images, reply.images);
    }
  }
};

}  // namespace

Episode::Episode(RolloutSample& sample, uint64_t seed, const EpisodeLimits& limits, const data::Encoder& encoder,
                 std::shared_ptr<const PromptMedia> media)
    : sample_(sample),
      seed_(seed),
      limits_(limits),
      context_(sample.prompt->ids),
      media_(std::move(media)),
      prompt_(sample.prompt->question),
      dialog_(sample.prompt->question),
      messages_(sample.prompt->question.messages),
      row_image_tokens_(sample.turns.own_prompt ? 0 : image_tokens(sample.prompt->pictures)),
      turn_image_tokens_(image_tokens(sample.prompt->pictures) - row_image_tokens_) {
  sample_.turns.count = 0;
  if (!takes_media(encoder)) return;
  data::reserve_tags(encoder, prompt_);
  dialog_.images = prompt_.images;  // those that the text names, too
}

void Episode::take(GeneratedCompletion generated) {
  auto& completion = sample_.completion;
  const bool has_logprobs =
      completion.logprobs.size() == completion.tokens.size() && generated.logprobs.size() == generated.tokens.size();
  text_ = generated.text;
  turn_begin_ = completion.tokens.size();
  if (!goes_on_) sample_.turns.last_turn_begin = turn_begin_;
  append_all(completion.tokens, generated.tokens);
  append_all(context_, generated.tokens);
  completion.loss_mask.resize(completion.tokens.size(), 1);
  if (has_logprobs)
    append_all(completion.logprobs, generated.logprobs);
  else
    completion.logprobs.clear();
  append_all(completion.versions, generated.versions);
  completion.truncated = generated.truncated;
  if (!goes_on_) {
    messages_.push_back({.role = "assistant"});
    later_.push_back({.role = "assistant"});
  }
  messages_.back().content += generated.text;
  later_.back().content = data::without_reserved_tags(messages_.back().content);
  completion.text = messages_.back().content;
  ++sample_.turns.count;
  sample_.turns.before = std::vector<data::Message>(messages_.begin(), messages_.end() - 1);
}

TurnInput Episode::input(bool last) const {
  return {.episode = seed_,
          .question = &dialog_,
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

// The number of the last turn's tokens within the first `bytes` of its text and before an end-of-turn token.
size_t Episode::tokens_within(size_t bytes, const data::Encoder& encoder) const {
  const auto& tokens = sample_.completion.tokens;
  const auto turn = std::span(tokens).subspan(turn_begin_);
  const auto ends = encoder.stop_ids();
  size_t kept = turn.size();
  while (kept > 0 && std::ranges::count(ends, turn[kept - 1]) > 0) --kept;
  if (bytes >= text_.size()) return kept;
  size_t shortest = 0;
  while (shortest < kept && encoder.tokenizer().decode(turn.first(shortest), true).size() < bytes) ++shortest;
  return shortest;
}

void Episode::cut_turn(size_t tokens, size_t bytes) {
  auto& completion = sample_.completion;
  const auto end = turn_begin_ + tokens, dropped = completion.tokens.size() - end;
  context_.resize(context_.size() - dropped);
  completion.tokens.resize(end);
  completion.loss_mask.resize(end);
  if (!completion.logprobs.empty()) completion.logprobs.resize(end);
  if (!completion.versions.empty()) completion.versions.resize(end);
  if (bytes >= text_.size()) return;
  messages_.back().content.resize(messages_.back().content.size() - (text_.size() - bytes));
  text_.resize(bytes);
}

// Whether a turn fits after a context of this length, of which the sequence's completion and the images of turns have these
// tokens.
bool Episode::has_room(size_t context, size_t completion, int64_t image_tokens) {
  const auto length = static_cast<int64_t>(context);
  const bool fits = limits_.room_after(written_before_ + static_cast<int64_t>(completion)) > 0 &&
                    length < limits_.max_model_len && length - image_tokens < limits_.max_text_len;
  if (!fits) sample_.completion.truncated = true;
  if (const auto added = image_tokens - turn_image_tokens_;
      added > 0 && length >= limits_.max_model_len && length - added < limits_.max_model_len)
    log::warn_once(
        fmt::format("images of a turn do not fit into the context of {} tokens, and the episode ends there: raise "
                    "`vllm_max_model_len`, or let images have fewer tokens (MAX_PIXELS)",
                    limits_.max_model_len));
  return fits;
}

// The present sequence is complete. The next one's prompt is all of the conversation, as the template renders it. Without room
// for it the present sequence stays the episode's last.
Result<bool> Episode::start_round(const NextTurn& next, const data::Encoder& encoder) {
  const Replies replies(next.replies, encoder);
  auto question = dialog_;
  question.messages = messages_;
  append_all(question.messages, replies.messages);
  append_all(question.images, replies.images);
  auto rendered = prompt_;  // its text must not name files that are read: <img>path</img>
  const auto origin = std::exchange(rendered.origin, {});
  rendered.images = question.images;
  append_all(rendered.messages, later_);
  append_all(rendered.messages, replies.rendered);
  Prompt prompt{.row = sample_.prompt->row, .question = std::move(question), .ids = {}};
  auto ids = encoder.encode_prompt(rendered, &prompt.pictures, &prompt.sounds);
  if (!ids) return Error{fmt::format("{}: {}", origin.str(), ids.error())};
  const auto turn_image_tokens = image_tokens(prompt.pictures) - row_image_tokens_;
  if (!has_room(ids->size(), sample_.completion.tokens.size(), turn_image_tokens)) return false;
  turn_image_tokens_ = turn_image_tokens;
  prompt.ids = std::move(*ids);
  if (prompt.has_media()) prompt.sources = data::media_sources(rendered);
  messages_ = prompt.question.messages;
  dialog_ = prompt.question;
  prompt_ = std::move(rendered);
  prompt_.origin = origin;
  later_.clear();
  written_before_ = written();
  auto turns = sample_.turns;
  sample_.turns.own_prompt = true;
  sample_.turns.media = {};
  sample_.turns.sources.clear();
  sample_.earlier.push_back({sample_.prompt, std::exchange(sample_.completion, {}), std::move(turns)});
  sample_.prompt = std::make_shared<const Prompt>(std::move(prompt));
  context_ = sample_.prompt->ids;
  media_ = sample_.prompt->media();
  goes_on_ = false;
  return true;
}

// The context has further images now.
void Episode::append_media(data::EncodedReplies replies, const std::vector<std::string>& images) {
  const auto first = static_cast<ptrdiff_t>(sample_.completion.tokens.size() - replies.ids.size());
  auto& turns = sample_.turns;
  auto further = data::moved(std::move(replies.media), first);
  append_all(turns.media.pictures, further.pictures);
  for (const auto& image : images) turns.sources.push_back({data::MediaSource::Kind::image, image});
  append_all(dialog_.images, images);
  auto sources = sample_.prompt->sources;
  append_all(sources, turns.sources);
  media_ = std::make_shared<const PromptMedia>(training_sample(sample_), std::move(sources));
}

Result<bool> Episode::append_replies(const NextTurn& next, const data::Encoder& encoder) {
  const auto& tokens = sample_.completion.tokens;
  const Replies replies(next.replies, encoder);
  auto encoded = data::encode_replies(encoder, prompt_, replies.rendered, replies.images);
  if (!encoded) return Error{encoded.error()};
  // A turn that the model ended itself is not ended again.
  auto& ids = encoded->ids;
  if (!ids.empty() && tokens.size() > turn_begin_ && tokens.back() == ids.front()) {
    ids.erase(ids.begin());
    encoded->media = data::moved(std::move(encoded->media), -1);
  }
  const auto turn_image_tokens = turn_image_tokens_ + image_tokens(encoded->media.pictures);
  if (!has_room(context_.size() + ids.size(), tokens.size() + ids.size(), turn_image_tokens)) return false;
  turn_image_tokens_ = turn_image_tokens;
  append_others(ids);
  append_all(messages_, replies.messages);
  append_all(later_, replies.rendered);
  if (!encoded->media.empty()) append_media(std::move(*encoded), replies.images);
  goes_on_ = false;
  return true;
}

// Text that no turn follows is left out, and the completion before it is not cut: nothing would be learnt from it, however long
// it is.
Result<bool> Episode::follow(const NextTurn& next, const data::Encoder& encoder) {
  const auto& tokens = sample_.completion.tokens;
  if (next.continued) {
    const auto ids = plain_tokens(encoder.tokenizer(), *next.continued);
    const auto kept = tokens_within(next.keep, encoder), dropped = tokens.size() - turn_begin_ - kept;
    if (!has_room(context_.size() - dropped + ids.size(), tokens.size() - dropped + ids.size(), turn_image_tokens_)) return false;
    cut_turn(kept, next.keep);
    messages_.back().content += *next.continued;
    append_others(ids);
    goes_on_ = true;
    return true;
  }
  return next.splits ? start_round(next, encoder) : append_replies(next, encoder);
}

void Episode::add_infos(const Json& infos) {
  if (!infos.is_object()) return;
  for (const auto& [name, value] : infos.items()) sample_.turns.infos[name] = value;
}

}  // namespace hone::train::rl

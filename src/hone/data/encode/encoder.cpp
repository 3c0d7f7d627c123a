#include "hone/data/encode/encoder.h"

#include <algorithm>
#include <atomic>

#include "hone/base/log.h"
#include "hone/data/encode/media_tags.h"
#include "hone/data/encode/row_media.h"
#include "hone/data/encode/truncate.h"
#include "hone/data/formats/checks.h"

namespace hone::data {
namespace {

using text::TokenId;

}  // namespace

Encoder::Encoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, std::string template_name)
    : config_(std::move(config)), tokenizer_(std::move(tokenizer)), template_name_(std::move(template_name)) {}

TokenId Encoder::eos() const { return tokenizer_->special().eos.value_or(-1); }

std::vector<TokenId> Encoder::stop_ids() const {
  std::vector<TokenId> ids;
  auto add = [&](TokenId id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  add(eos());
  for (const auto& word : stop_words())
    if (auto id = tokenizer_->id_of(word)) add(*id);
  return ids;
}

std::vector<TokenId> Encoder::tokens(std::string_view text, bool guarded) const {
  std::vector<TokenId> ids;
  if (!pictures_ || !has_mark(text)) {
    tokenizer_->encode_to(text, {.guard_special_tokens = guarded}, ids);
    return ids;
  }
  auto add = [&](TokenId id) {
    if (id >= 0) ids.push_back(id);  // some models have no marker tokens
  };
  auto pad_of = [&](Placeholder kind) {
    return kind == Placeholder::sound ? sounds_->pad : kind == Placeholder::video ? pictures_->video_pad : pictures_->pad;
  };
  for (const auto& piece : split_at_marks(text)) {
    tokenizer_->encode_to(piece.text, {.guard_special_tokens = guarded}, ids);
    if (piece.runs.empty()) continue;
    auto holds = [&](bool sound) {
      return std::ranges::any_of(piece.runs, [&](const auto& run) { return (run.kind == Placeholder::sound) == sound; });
    };
    const bool has_pictures = holds(false), has_sounds = holds(true), apart = has_pictures && pictures_->has_text_apart;
    if (apart) tokenizer_->encode_to(pictures_->text_before, {}, ids);
    if (has_pictures) add(pictures_->start);
    if (has_sounds) add(sounds_->start);
    for (const auto& run : piece.runs) ids.insert(ids.end(), static_cast<size_t>(run.tokens), pad_of(run.kind));
    if (has_sounds) add(sounds_->end);
    if (has_pictures) add(pictures_->end);
    if (apart) tokenizer_->encode_to(pictures_->text_after, {}, ids);
  }
  return ids;
}

bool Encoder::spells_special_token(const std::string& text) const {
  auto ids = tokens(text);
  return std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer_->is_special(id); });
}

void Encoder::warn_of_turn_tokens(const Conversation& conversation) const {
  static std::atomic_flag has_warned;
  if (config_.guard_special_tokens || has_warned.test()) return;
  for (const auto& message : conversation.messages)
    for (const auto& token : turn_tokens_)
      if (message.content.find(token) != std::string::npos && spells_special_token(token) && !has_warned.test_and_set())
        log::warning(
            "{}: the text contains {}, which the model reads as the end of a turn; `guard_special_tokens` true keeps such tokens "
            "as plain text (only the first such row is reported)",
            conversation.origin.str(), token);
}

namespace {

// Runs `encode` and converts exceptions caused by the row to its Error.
template <class Encode>
auto guarded(const Conversation& conversation, Encode encode) -> Result<decltype(encode())> {
  auto failed = [&](RowProblem problem, const std::string& what) { return row_error(problem, conversation.origin.str(), what); };
  try {
    return encode();
  } catch (const MediaError& problem) {
    return failed(RowProblem::media, problem.what());
  } catch (const text::FormatError& problem) {
    return failed(RowProblem::order, problem.what());
  } catch (const Json::exception& problem) {
    return failed(RowProblem::type, problem.what());
  }
}

// A request or a typed prompt is in no file: its error is the row's error without "file:line: kind: ".
Error prompt_error(const Conversation& conversation, const std::string& message) {
  if (!conversation.origin.file.empty()) return Error{message};
  const auto prefix = fmt::format("{}: {}: ", conversation.origin.str(), name(problem_of(message)));
  return Error{message.starts_with(prefix) ? message.substr(prefix.size()) : message};
}

Error too_long(const Sample& sample, int64_t max_length) {
  int64_t media = 0;
  for (const auto& picture : sample.pictures) media += picture.geometry.tokens;
  for (const auto& sound : sample.sounds) media += sound.tokens;
  const auto part = media > 0 ? fmt::format(", {} of them of images, videos or audio", media) : "";
  return row_error(RowProblem::too_long, sample.origin.str(),
                   fmt::format("{} tokens{}; max_length is {}", sample.ids.size(), part, max_length));
}

}  // namespace

Result<std::vector<Sample>> Encoder::encode_split(const Conversation& conversation) const {
  warn_of_turn_tokens(conversation);
  const MediaProcessor processor(config_.dialect, pictures_, sounds_);
  auto media = processor.open(conversation);
  if (!media) return Error{media.error()};
  auto whole = guarded(conversation, [&] {
    if (media->empty() && !((pictures_ || sounds_) && spells_media_tag(conversation))) {
      auto sample = encode_untruncated(conversation);
      processor.assign({}, *media, sample);
      return sample;
    }
    auto row = processor.marked(conversation, *media);
    auto sample = encode_untruncated(row.conversation);
    processor.assign(std::move(row.pictures), *media, sample);
    return sample;
  });
  if (!whole) return Error{whole.error()};
  whole->origin = conversation.origin;
  if (conversation.extra.is_object() && conversation.extra.contains("channel") && conversation.extra["channel"].is_string())
    whole->channel = conversation.extra["channel"].get<std::string>();
  auto length = static_cast<int64_t>(whole->ids.size());
  if (length == 0) return row_error(RowProblem::empty_response, conversation.origin.str(), "the row has no tokens");
  if (config_.max_length > 0 && length > config_.max_length &&
      !(config_.dialect == Dialect::factory && config_.concatenate_text)) {
    switch (config_.truncation) {
      case Truncation::drop:
        return too_long(*whole, config_.max_length);
      case Truncation::split:
        if (!whole->pictures.empty() || !whole->sounds.empty())
          return row_error(
              RowProblem::too_long, conversation.origin.str(),
              fmt::format("{} tokens with media, which are not split; max_length is {}", length, config_.max_length));
        return split(*whole, config_.max_length);
      default:
        truncate(*whole, config_.max_length, config_.truncation);
    }
  }
  return std::vector<Sample>{std::move(*whole)};
}

Result<Sample> Encoder::encode(const Conversation& conversation) const {
  auto parts = encode_split(conversation);
  if (!parts) return Error{parts.error()};
  if (parts->size() > 1) return row_error(RowProblem::too_long, conversation.origin.str(), "the row needs several samples");
  return std::move((*parts)[0]);
}

std::pair<Sample, Sample> Encoder::encode_untruncated_pair(const Conversation& conversation) const {
  return {encode_untruncated(conversation), encode_untruncated(rejected_conversation(conversation))};
}

Result<std::pair<Sample, Sample>> Encoder::encode_pair(const Conversation& conversation) const {
  if (conversation.rejected.empty())
    return row_error(RowProblem::preference, conversation.origin.str(), "the row has no rejected response");
  if (config_.dialect != Dialect::factory && has_rejected_columns(conversation.extra)) {
    auto alone = conversation, other = rejected_conversation(conversation);
    alone.rejected.clear();
    if (auto bad = read_rejected_columns(conversation, other))
      return row_error(bad->problem, conversation.origin.str(), bad->details);
    auto chosen = encode(alone), rejected = encode(other);
    if (!chosen || !rejected) return Error{(chosen ? rejected : chosen).error()};
    return std::pair(std::move(*chosen), std::move(*rejected));
  }
  warn_of_turn_tokens(conversation);
  const MediaProcessor processor(config_.dialect, pictures_, sounds_);
  auto media = processor.open(conversation);
  if (!media) return Error{media.error()};
  auto pair = guarded(conversation, [&] {
    MarkedConversation row;
    const bool is_marked = !media->empty() || ((pictures_ || sounds_) && spells_media_tag(conversation));
    if (is_marked) row = processor.marked(conversation, *media);
    auto both = encode_untruncated_pair(is_marked ? row.conversation : conversation);
    processor.assign(std::move(row.pictures), *media, both.first);
    processor.assign(std::move(row.rejected), *media, both.second);
    return both;
  });
  if (!pair) return Error{pair.error()};
  for (auto* sample : {&pair->first, &pair->second}) {
    sample->origin = conversation.origin;
    auto length = static_cast<int64_t>(sample->ids.size());
    if (config_.max_length <= 0 || length <= config_.max_length) continue;
    if (config_.truncation == Truncation::drop || config_.truncation == Truncation::split)
      return too_long(*sample, config_.max_length);
    truncate(*sample, config_.max_length, config_.truncation);
  }
  return pair;
}

Result<std::vector<TokenId>> Encoder::encode_prompt(const Conversation& conversation, std::vector<Picture>* pictures,
                                                    std::vector<Sound>* sounds) const {
  const MediaProcessor processor(config_.dialect, pictures_, sounds_);
  auto opened = processor.open(conversation);
  if (!opened) return prompt_error(conversation, opened.error());
  auto refused = [&](const char* what) {
    return prompt_error(conversation, row_error(RowProblem::media, conversation.origin.str(), what).message);
  };
  if (!opened->visual.empty() && !pictures) return refused("images are not supported here; expected text only");
  if (!(opened->audio.empty() && opened->tracks.empty()) && !sounds)
    return refused("audio is not supported here; expected text only");
  auto ids = guarded(conversation, [&] {
    Sample prompt;
    if (opened->empty()) {
      prompt.ids = encode_generation_prompt(conversation);
    } else {
      auto row = processor.marked(conversation, *opened);
      prompt.ids = encode_generation_prompt(row.conversation);
      processor.assign(std::move(row.pictures), *opened, prompt);
    }
    if (pictures) *pictures = std::move(prompt.pictures);
    if (sounds) *sounds = std::move(prompt.sounds);
    return std::move(prompt.ids);
  });
  if (!ids) return prompt_error(conversation, ids.error());
  return ids;
}

Conversation rejected_conversation(const Conversation& conversation) {
  auto rejected = conversation;
  rejected.messages = std::exchange(rejected.rejected, {});
  return rejected;
}

}  // namespace hone::data

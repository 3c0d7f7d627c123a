#include "hone/data/encode/encoder.h"

#include <algorithm>
#include <atomic>

#include "hone/base/edit_distance.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/data/encode/default_template.h"
#include "hone/data/encode/factory.h"
#include "hone/data/encode/jinja.h"
#include "hone/data/encode/media_tags.h"
#include "hone/data/encode/picture_config.h"
#include "hone/data/encode/row_media.h"
#include "hone/data/encode/swift.h"
#include "hone/data/encode/truncate.h"
#include "hone/data/formats/checks.h"
#include "hone/data/sounds/sound_config.h"

namespace hone::data {
namespace {

using text::TokenId;

[[noreturn]] void unknown_template(const std::string& name, std::vector<std::string> known) {
  std::erase_if(known, [&](const std::string& each) {
    return !each.starts_with(name) && edit_distance(each, name) > misspelling_limit(name.size());
  });
  std::ranges::sort(known, {}, [&](const std::string& each) { return edit_distance(each, name); });
  known.resize(std::min<size_t>(known.size(), 5));
  throw UserError(
      ExitCode::usage, "template \"" + name + "\" is unknown",
      fmt::format("{}; or leave `template` out to use the model's own chat template",
                  known.empty() ? "docs/data.md lists the names" : fmt::format("did you mean {}", fmt::join(known, ", "))));
}

std::shared_ptr<Encoder> jinja_template(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                        const std::string& source, const std::string& origin) {
  auto parsed = text::ChatTemplate::parse(source);
  if (!parsed) throw UserError(ExitCode::bad_data, origin + ": " + parsed.error(), "choose a built-in one with `template`");
  return std::make_shared<JinjaEncoder>(std::move(config), std::move(tokenizer), std::move(*parsed));
}

std::shared_ptr<Encoder> own_template(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto source = tokenizer->chat_template();
  if (source.empty())
    throw UserError(ExitCode::usage, "the model has no chat template, and its name does not identify one",
                    "choose one with `template`, for example chatml");
  return jinja_template(std::move(config), std::move(tokenizer), source, "the model's chat template");
}

void say_choice(const std::string& name, const ModelIdentity& model, bool has_own) {
  log::info("template {}: chosen by the model's name {} and its model_type {}{}", name, model.name,
            model.model_type.empty() ? "(unknown)" : model.model_type,
            has_own ? "; `template` jinja takes the model's own chat template" : "");
}

std::shared_ptr<Encoder> factory_default(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto dialog = *text::find_factory_template("empty");
  if (!tokenizer->chat_template().empty() && !config.pretraining) {
    if (auto parsed = parse_dialog(*tokenizer))
      dialog = *parsed;
    else
      log::warning("the model's chat template cannot be taken apart ({}): using template \"empty\"", parsed.error());
  }
  return std::make_shared<FactoryEncoder>(std::move(config), std::move(tokenizer), std::move(dialog));
}

}  // namespace

EncodeConfig dialect_defaults(Dialect dialect) {
  EncodeConfig config{.dialect = dialect};
  if (dialect == Dialect::factory) {
    config.max_length = 2048;
    config.enable_thinking = true;
  }
  return config;
}

std::shared_ptr<const Encoder> Encoder::make(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                             const ModelIdentity& model) {
  auto pictures = picture_config(config, *tokenizer, model);
  auto sounds = sound_config(config, *tokenizer, model);
  auto encoder = make_for_text(std::move(config), std::move(tokenizer), model);
  encoder->pictures_ = std::move(pictures);
  encoder->sounds_ = std::move(sounds);
  return encoder;
}

std::shared_ptr<Encoder> Encoder::make_for_text(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                                const ModelIdentity& model) {
  auto name = config.template_name;
  if (name == "jinja" || name == "auto" || config.dialect == Dialect::jinja)
    return own_template(std::move(config), std::move(tokenizer));
  bool chosen_here = name.empty();
  if (chosen_here) name = default_template(config.dialect, model);
  if (config.dialect == Dialect::factory) {
    if (name.empty()) return factory_default(std::move(config), std::move(tokenizer));
    auto dialog = text::find_factory_template(name);
    if (!dialog && fs::is_regular_file(name))
      return jinja_template(std::move(config), std::move(tokenizer), read_file(name), name);
    if (!dialog) unknown_template(name, text::factory_dialog_names());
    return std::make_shared<FactoryEncoder>(std::move(config), std::move(tokenizer), *dialog);
  }
  bool bare = !config.use_chat_template || config.pretraining;
  if (bare) {
    config.use_chat_template = false;
    if (config.pretraining) config.loss_scale = "all";
    if (name.empty()) name = "dummy";
  }
  if (name.empty()) return own_template(std::move(config), std::move(tokenizer));
  auto dialog = text::find_swift_template(name);
  if (!dialog && fs::is_regular_file(name)) return jinja_template(std::move(config), std::move(tokenizer), read_file(name), name);
  if (!dialog) unknown_template(name, text::swift_dialog_names());
  if (chosen_here && !bare) say_choice(name, model, !tokenizer->chat_template().empty());
  return std::make_shared<SwiftEncoder>(std::move(config), std::move(tokenizer), *dialog);
}

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
    const bool seen = holds(false), heard = holds(true), apart = seen && pictures_->has_text_apart;
    if (apart) tokenizer_->encode_to(pictures_->text_before, {}, ids);
    if (seen) add(pictures_->start);
    if (heard) add(sounds_->start);
    for (const auto& run : piece.runs) ids.insert(ids.end(), static_cast<size_t>(run.tokens), pad_of(run.kind));
    if (heard) add(sounds_->end);
    if (seen) add(pictures_->end);
    if (apart) tokenizer_->encode_to(pictures_->text_behind, {}, ids);
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
  for (const auto& picture : sample.pictures) media += picture.plan.tokens;
  for (const auto& sound : sample.sounds) media += sound.tokens;
  const auto part = media > 0 ? fmt::format(", {} of them of images, videos or audio", media) : "";
  return row_error(RowProblem::too_long, sample.origin.str(),
                   fmt::format("{} tokens{}; max_length is {}", sample.ids.size(), part, max_length));
}

}  // namespace

Result<std::vector<Sample>> Encoder::encode_split(const Conversation& conversation) const {
  warn_of_turn_tokens(conversation);
  const MediaPlanner planner(config_.dialect, pictures_, sounds_);
  auto media = planner.plan(conversation);
  if (!media) return Error{media.error()};
  auto whole = guarded(conversation, [&] {
    if (media->empty() && !((pictures_ || sounds_) && spells_media_tag(conversation))) {
      auto sample = encode_untruncated(conversation);
      planner.assign({}, *media, sample);
      return sample;
    }
    auto row = planner.marked(conversation, *media);
    auto sample = encode_untruncated(row.conversation);
    planner.assign(std::move(row.pictures), *media, sample);
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
  const MediaPlanner planner(config_.dialect, pictures_, sounds_);
  auto media = planner.plan(conversation);
  if (!media) return Error{media.error()};
  auto pair = guarded(conversation, [&] {
    MarkedConversation row;
    const bool is_marked = !media->empty() || ((pictures_ || sounds_) && spells_media_tag(conversation));
    if (is_marked) row = planner.marked(conversation, *media);
    auto both = encode_untruncated_pair(is_marked ? row.conversation : conversation);
    planner.assign(std::move(row.pictures), *media, both.first);
    planner.assign(std::move(row.rejected), *media, both.second);
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
  const MediaPlanner planner(config_.dialect, pictures_, sounds_);
  auto planned = planner.plan(conversation);
  if (!planned) return prompt_error(conversation, planned.error());
  auto refused = [&](const char* what) {
    return prompt_error(conversation, row_error(RowProblem::media, conversation.origin.str(), what).message);
  };
  if (!planned->seen.empty() && !pictures) return refused("images are not supported here; expected text only");
  if (!(planned->heard.empty() && planned->tracks.empty()) && !sounds)
    return refused("audio is not supported here; expected text only");
  auto ids = guarded(conversation, [&] {
    Sample prompt;
    if (planned->empty()) {
      prompt.ids = encode_generation_prompt(conversation);
    } else {
      auto row = planner.marked(conversation, *planned);
      prompt.ids = encode_generation_prompt(row.conversation);
      planner.assign(std::move(row.pictures), *planned, prompt);
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

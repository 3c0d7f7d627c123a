#include "hone/data/encode/encoder.h"

#include <algorithm>

#include "hone/base/edit_distance.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/data/encode/factory.h"
#include "hone/data/encode/jinja.h"
#include "hone/data/encode/swift.h"
#include "hone/data/encode/truncate.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

using text::TokenId;

[[noreturn]] void unknown_template(const std::string& name, std::vector<std::string> known) {
  std::sort(known.begin(), known.end(),
            [&](const auto& a, const auto& b) { return edit_distance(a, name) < edit_distance(b, name); });
  known.resize(std::min<size_t>(known.size(), 5));
  throw UserError(
      ExitCode::usage, "template \"" + name + "\" is unknown",
      fmt::format("nearest: {}; or leave --template out to use the model's own chat template", fmt::join(known, ", ")));
}

std::shared_ptr<const Encoder> jinja_template(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                              const std::string& source, const std::string& origin) {
  auto parsed = text::ChatTemplate::parse(source);
  if (!parsed) throw UserError(ExitCode::bad_data, origin + ": " + parsed.error(), "choose a built-in one with --template");
  return std::make_shared<JinjaEncoder>(std::move(config), std::move(tokenizer), std::move(*parsed));
}

std::shared_ptr<const Encoder> own_template(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer) {
  auto source = tokenizer->chat_template();
  if (source.empty())
    throw UserError(ExitCode::usage, "the model has no chat template and its name tells none",
                    "choose one with --template, for example chatml");
  return jinja_template(std::move(config), std::move(tokenizer), source, "the model's chat template");
}

void say_choice(const std::string& name, const ModelIdentity& model, bool has_own) {
  log::info("template {}: chosen by the model's name {} and its model_type {}{}", name, model.name,
            model.model_type.empty() ? "(unknown)" : model.model_type,
            has_own ? "; --template jinja takes the model's own chat template" : "");
}

std::shared_ptr<const Encoder> factory_default(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer) {
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
  tokenizer_->encode_to(text, {.guard_special_tokens = guarded}, ids);
  return ids;
}

bool Encoder::spells_special_token(const std::string& text) const {
  auto ids = tokens(text);
  return std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer_->is_special(id); });
}

void Encoder::note_turn_tokens(const Conversation& conversation) const {
  for (const auto& message : conversation.messages)
    for (const auto& token : turn_tokens_)
      if (message.content.find(token) != std::string::npos) {
        turn_token_rows_.fetch_add(1);
        return;
      }
}

namespace {

// What a row shows besides text: learnt without it, its answers would speak of what was never seen.
std::string_view media_of(const Conversation& conversation) {
  return !conversation.images.empty()   ? "images"
         : !conversation.videos.empty() ? "videos"
         : !conversation.audios.empty() ? "audios"
                                        : "";
}

// Runs `encode` and turns what a row can do wrong into the row's Error.
template <class Encode>
auto guarded(const Conversation& conversation, Encode encode) -> Result<decltype(encode())> {
  auto failed = [&](RowProblem problem, const std::string& what) { return row_error(problem, conversation.origin.str(), what); };
  if (auto media = media_of(conversation); !media.empty())
    return failed(RowProblem::media, fmt::format("{} are not in this version; expected text alone", media));
  try {
    return encode();
  } catch (const text::FormatError& problem) {
    return failed(RowProblem::order, problem.what());
  } catch (const Json::exception& problem) {
    return failed(RowProblem::type, problem.what());
  }
}

}  // namespace

Result<std::vector<Sample>> Encoder::encode_split(const Conversation& conversation) const {
  note_turn_tokens(conversation);
  auto whole = guarded(conversation, [&] { return encode_untruncated(conversation); });
  if (!whole) return Error{whole.error()};
  whole->origin = conversation.origin;
  if (conversation.extra.is_object() && conversation.extra.contains("channel") && conversation.extra["channel"].is_string())
    whole->channel = conversation.extra["channel"].get<std::string>();
  auto length = static_cast<int64_t>(whole->ids.size());
  if (length == 0) return row_error(RowProblem::empty_answer, conversation.origin.str(), "the row has no tokens");
  if (config_.max_length > 0 && length > config_.max_length &&
      !(config_.dialect == Dialect::factory && config_.concatenate_text)) {
    switch (config_.truncation) {
      case Truncation::drop:
        return row_error(RowProblem::too_long, conversation.origin.str(),
                         fmt::format("{} tokens; max_length is {}", length, config_.max_length));
      case Truncation::split:
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
  note_turn_tokens(conversation);
  auto pair = guarded(conversation, [&] { return encode_untruncated_pair(conversation); });
  if (!pair) return Error{pair.error()};
  for (auto* sample : {&pair->first, &pair->second}) {
    sample->origin = conversation.origin;
    auto length = static_cast<int64_t>(sample->ids.size());
    if (config_.max_length <= 0 || length <= config_.max_length) continue;
    if (config_.truncation == Truncation::drop || config_.truncation == Truncation::split)
      return row_error(RowProblem::too_long, conversation.origin.str(),
                       fmt::format("{} tokens; max_length is {}", length, config_.max_length));
    truncate(*sample, config_.max_length, config_.truncation);
  }
  return pair;
}

Result<std::vector<TokenId>> Encoder::encode_prompt(const Conversation& conversation) const {
  return guarded(conversation, [&] { return encode_generation_prompt(conversation); });
}

Conversation rejected_conversation(const Conversation& conversation) {
  auto rejected = conversation;
  rejected.messages = std::move(rejected.rejected);
  rejected.rejected.clear();
  return rejected;
}

}  // namespace hone::data

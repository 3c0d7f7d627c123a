// The choice of a template: by name, by the model's name and type, or the model's own.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/edit_distance.h"
#include "hone/data/encode/default_template.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/encode/factory.h"
#include "hone/data/encode/jinja/jinja.h"
#include "hone/data/encode/picture_config.h"
#include "hone/data/encode/swift.h"
#include "hone/data/sounds/sound_config.h"

namespace hone::data {
namespace {

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
  auto chat_template = *text::find_factory_template("empty");
  if (!tokenizer->chat_template().empty() && !config.pretraining) {
    if (auto parsed = parse_chat_template(*tokenizer))
      chat_template = *parsed;
    else
      log::warning("the model's chat template cannot be taken apart ({}): using template \"empty\"", parsed.error());
  }
  return std::make_shared<FactoryEncoder>(std::move(config), std::move(tokenizer), std::move(chat_template));
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
    auto chat_template = text::find_factory_template(name);
    if (!chat_template && fs::is_regular_file(name))
      return jinja_template(std::move(config), std::move(tokenizer), read_file(name), name);
    if (!chat_template) unknown_template(name, text::factory_template_names());
    return std::make_shared<FactoryEncoder>(std::move(config), std::move(tokenizer), *chat_template);
  }
  bool bare = !config.use_chat_template || config.pretraining;
  if (bare) {
    config.use_chat_template = false;
    if (config.pretraining) config.loss_scale = "all";
    if (name.empty()) name = "dummy";
  }
  if (name.empty()) return own_template(std::move(config), std::move(tokenizer));
  auto chat_template = text::find_swift_template(name);
  if (!chat_template && fs::is_regular_file(name))
    return jinja_template(std::move(config), std::move(tokenizer), read_file(name), name);
  if (!chat_template) unknown_template(name, text::swift_template_names());
  if (chosen_here && !bare) say_choice(name, model, !tokenizer->chat_template().empty());
  return std::make_shared<SwiftEncoder>(std::move(config), std::move(tokenizer), *chat_template);
}

}  // namespace hone::data

// Extracts slots from a Jinja chat template by rendering conversations whose text is the placeholder itself.
#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/data/encode/factory.h"
#include "hone/data/encode/jinja/jinja.h"

namespace hone::data {
namespace {

constexpr const char* kContent = "{{content}}";

Json message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

// The characters of `longer` that remain after removing those of `shorter` in order.
std::string difference(const std::string& shorter, const std::string& longer) {
  std::string rest;
  size_t i = 0, j = 0;
  for (; i < shorter.size() && j < longer.size(); ++j)
    if (shorter[i] == longer[j])
      ++i;
    else
      rest += longer[j];
  return rest;
}

std::string tail(const std::string& text, size_t from) { return text.substr(std::min(from, text.size())); }

}  // namespace

Result<text::FactoryTemplate> parse_chat_template(const text::Tokenizer& tokenizer) {
  auto parsed = text::ChatTemplate::parse(tokenizer.chat_template());
  if (!parsed) return Error{parsed.error()};
  auto prefix = tokenizer.decode(tokenizer.encode("", {.add_special_tokens = true}));
  std::string failure;
  auto render = [&](Json messages, bool open) {
    auto rendered = parsed->render(template_variables(tokenizer, std::move(messages), Json(), open));
    if (!rendered && failure.empty()) failure = rendered.error();
    return rendered ? tail(rendered->text, prefix.size()) : std::string();
  };
  auto system = render({message("system", kContent)}, false);
  auto user_without_system = render({message("system", ""), message("user", kContent)}, true);
  auto user = render({message("user", kContent)}, true);
  auto both = render({message("user", kContent), message("assistant", kContent)}, false);
  if (!failure.empty()) return Error{failure};

  auto reply = tail(both, user.size());
  text::FactoryTemplate chat_template{.name = "own"};
  if (reply.find("<think>") != std::string::npos) chat_template.kind = text::FactoryTemplate::Kind::reasoning;
  reply = replace_all(replace_all(reply, "<think>", ""), "</think>", "");
  reply = tail(reply, std::min(reply.find_first_not_of('\n'), reply.size()));
  if (user.size() > user_without_system.size()) {
    chat_template.default_system = difference(user_without_system, user);
    auto alone = system;
    if (auto at = alone.find(kContent); at != std::string::npos)
      alone.replace(at, std::string_view(kContent).size(), chat_template.default_system);
    user = tail(user, alone.size());
  }
  chat_template.user = chat_template.observation = {user};
  chat_template.assistant = chat_template.function = {reply};
  chat_template.system = {system};
  if (!prefix.empty()) chat_template.prefix = {prefix};
  return chat_template;
}

}  // namespace hone::data

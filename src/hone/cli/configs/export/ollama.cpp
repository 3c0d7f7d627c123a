#include "hone/cli/configs/export/ollama.h"

namespace hone::cli {
namespace {

constexpr const char* kGoSystem = "{{ .System }}";
constexpr const char* kGoPrompt = "{{ .Prompt }}";

std::string prompt_text_of(const data::Encoder& encoder, const text::Tokenizer& tokenizer, bool with_system) {
  data::Conversation conversation;
  if (with_system) conversation.messages.push_back({.role = "system", .content = kGoSystem});
  conversation.messages.push_back({.role = "user", .content = kGoPrompt});
  auto ids = encoder.encode_prompt(conversation).or_throw(ExitCode::usage, "the chat template");
  // Ollama adds the BOS token itself.
  if (auto bos = tokenizer.special().bos; bos && !ids.empty() && ids.front() == *bos) ids.erase(ids.begin());
  return tokenizer.decode(ids);
}

size_t common_end(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

}  // namespace

std::string ollama_modelfile(const data::Encoder& encoder, const text::Tokenizer& tokenizer, const ModelfileSettings& settings) {
  auto with = prompt_text_of(encoder, tokenizer, true), without = prompt_text_of(encoder, tokenizer, false);
  auto shared = common_end(with, without);
  auto turn = with.substr(with.size() - shared);
  if (with.find(kGoSystem) == std::string::npos || turn.find(kGoPrompt) == std::string::npos)
    throw UserError(ExitCode::usage, fmt::format("template {} cannot be written for Ollama: it changes the texts it is given",
                                                 encoder.template_name()));
  auto stops = encoder.stop_words();
  std::string ending = stops.empty() ? "" : stops.front();
  auto otherwise = without.substr(0, without.size() - shared);  // the template's default system prompt
  if (!otherwise.empty()) otherwise = "{{ else }}" + otherwise;
  std::string file = fmt::format("FROM {}\nTEMPLATE \"\"\"{{{{ if .System }}}}{}{}{{{{ end }}}}{}{{{{ .Response }}}}{}\"\"\"\n",
                                 settings.from, with.substr(0, with.size() - shared), otherwise, turn, ending);
  if (!settings.system.empty()) file += fmt::format("SYSTEM \"\"\"{}\"\"\"\n", settings.system);
  for (const auto& stop : stops) file += fmt::format("PARAMETER stop {}\n", Json(stop).dump());
  if (settings.context > 0) file += fmt::format("PARAMETER num_ctx {}\n", settings.context);
  return file;
}

}  // namespace hone::cli

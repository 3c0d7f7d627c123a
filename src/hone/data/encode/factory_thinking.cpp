// Reasoning in LLaMA-Factory's templates: which turns keep it, and where an empty one stands for it.
#include <algorithm>

#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/factory.h"

namespace hone::data {

bool FactoryEncoder::reasoning() const {
  using Kind = text::FactoryTemplate::Kind;
  return template_.kind == Kind::reasoning || template_.kind == Kind::reasoning_closing_tag;
}

bool FactoryEncoder::has_reasoning(const std::string& content) const {
  return content.find(trimmed(template_.reasoning_open)) != std::string::npos ||
         content.find(trimmed(template_.reasoning_close)) != std::string::npos;
}

std::string FactoryEncoder::without_reasoning(const std::string& content) const {
  std::string out = content;
  for (size_t open = out.find(template_.reasoning_open); open != std::string::npos;
       open = out.find(template_.reasoning_open, open)) {
    auto close = out.find(template_.reasoning_close, open + template_.reasoning_open.size());
    if (close == std::string::npos) break;
    out.erase(open, close + template_.reasoning_close.size() - open);
  }
  return out.substr(std::min(out.find_first_not_of('\n'), out.size()));
}

std::vector<std::pair<FactoryEncoder::Ids, FactoryEncoder::Ids>> FactoryEncoder::encode_turns(Dialogue dialogue) const {
  auto& messages = dialogue.messages;
  bool drop_history = config_.mask_history && !config_.preserve_thinking.value_or(false);
  if (reasoning()) {
    bool drop_all = config_.enable_thinking == false;
    for (size_t i = 1; i < messages.size(); i += 2)
      if (drop_all || (drop_history && i + 2 < messages.size())) messages[i].content = without_reasoning(messages[i].content);
  }
  auto encoded = encode_messages(dialogue);
  if (reasoning()) {
    for (size_t i = drop_history ? messages.size() - 2 : 0; i < messages.size(); i += 2) {
      if (has_reasoning(messages[i + 1].content)) continue;
      if (config_.enable_thinking.value_or(false))
        encoded[i + 1].insert(encoded[i + 1].begin(), empty_reasoning_.begin(), empty_reasoning_.end());
      else
        encoded[i].insert(encoded[i].end(), empty_reasoning_.begin(), empty_reasoning_.end());
    }
  }
  std::vector<std::pair<Ids, Ids>> turns;
  for (size_t i = 0; i + 1 < encoded.size(); i += 2) turns.emplace_back(std::move(encoded[i]), std::move(encoded[i + 1]));
  return turns;
}

FactoryEncoder::OneTurn FactoryEncoder::encode_last_turn(Dialogue dialogue) const {
  auto& messages = dialogue.messages;
  auto& last = messages.back().content;
  if (reasoning()) {
    if (!config_.preserve_thinking.value_or(false))
      for (size_t i = 1; i + 2 < messages.size(); i += 2) messages[i].content = without_reasoning(messages[i].content);
    if (config_.enable_thinking == false) last = without_reasoning(last);
  }
  auto encoded = encode_messages(dialogue);
  OneTurn turn{.response = std::move(encoded.back())};
  for (size_t i = 0; i + 1 < encoded.size(); ++i) turn.prompt.insert(turn.prompt.end(), encoded[i].begin(), encoded[i].end());
  if (reasoning() && !has_reasoning(last)) {
    if (config_.enable_thinking.value_or(false))
      turn.response.insert(turn.response.begin(), empty_reasoning_.begin(), empty_reasoning_.end());
    else
      turn.prompt.insert(turn.prompt.end(), empty_reasoning_.begin(), empty_reasoning_.end());
  }
  return turn;
}

}  // namespace hone::data

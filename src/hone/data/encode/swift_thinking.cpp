// ms-swift's handling of reasoning: think blocks of responses, what replaces missing ones, and the system prompt about them.
#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/swift.h"

namespace hone::data {

std::optional<std::string> SwiftEncoder::system_text(Turns& turns) const {
  bool knows_system = template_.system_prefix || template_.system_in_prompt;
  if (turns.system && !knows_system)
    throw text::FormatError("template \"" + template_.name + "\" has no slot for a system message");
  auto system = turns.system ? turns.system : template_.default_system;
  if (!turns.tools.empty()) return agent_->render_tools(turns.tools, system, turns.turns[0].text);
  const auto& form = thinks(turns) ? template_.thinking_system : template_.plain_system;
  if (!form) return system;
  if (!system || system->empty()) return form->empty.empty() ? system : form->empty;
  bool is_set = !form->unless.empty() && system->find(form->unless) != std::string::npos;
  return is_set ? system : replace_all(form->filled, "{{SYSTEM}}", *system);
}

bool SwiftEncoder::thinks(const Turns& turns) const {
  bool unasked = template_.thinking_by_default.value_or(template_.thinking && template_.non_thinking_prefix.empty());
  return turns.enable_thinking.value_or(config_.enable_thinking.value_or(unasked));
}

bool SwiftEncoder::preserves_thinking(const Turns& turns, bool training) const {
  if (turns.preserve_thinking) return *turns.preserve_thinking;
  if (config_.preserve_thinking) return *config_.preserve_thinking;
  if (template_.preserve_thinking) return *template_.preserve_thinking;
  if (!template_.thinking && !thinks(turns)) return true;
  return training && loss_scale_.base() != LossScale::Base::last_round;
}

std::string SwiftEncoder::response_prefix(const Turns& turns) const {
  if (turns.response_prefix) return *turns.response_prefix;
  if (config_.response_prefix) return *config_.response_prefix;
  if (!config_.use_chat_template) return "";
  return thinks(turns) ? template_.thinking_prefix : template_.non_thinking_prefix;
}

void SwiftEncoder::add_non_thinking_prefix(Turns& turns, bool training) const {
  const auto& prefix = template_.non_thinking_prefix;
  if (prefix.empty()) return;
  if (template_.quirk == text::SwiftTemplate::Quirk::youtu_thoughts) {
    auto last =
        std::find_if(turns.turns.rbegin(), turns.turns.rend(), [](const Turn& turn) { return turn.response.size() == 1; });
    if (last == turns.turns.rend()) return;
    auto& text = last->response[0].text;
    if (text.find(template_.reasoning_open) == text.npos && text.find(template_.reasoning_close) == text.npos)
      text = prefix + text;
    return;
  }
  bool last_only =
      (!training || loss_scale_.base() == LossScale::Base::last_round) && !template_.preserve_thinking.value_or(false);
  int64_t start = last_only ? turns.last_user() : -1;
  for (size_t i = 0; i < turns.turns.size(); ++i) {
    auto& turn = turns.turns[i];
    if (static_cast<int64_t>(i) < start || turn.response.empty()) continue;
    if (template_.non_thinking_after_user_only && (i == 0 || turns.turns[i - 1].role != Turn::Role::user)) continue;
    auto& text = turn.response[0].text;
    if (!text.starts_with(template_.reasoning_open) && !text.starts_with(prefix)) text = prefix + text;
  }
}

void SwiftEncoder::drop_history_thinking(Turns& turns) const {
  int64_t last_user = turns.last_user();
  for (size_t i = 0; static_cast<int64_t>(i) < last_user; ++i) {
    auto& turn = turns.turns[i];
    if (turn.response.empty()) continue;
    auto& text = turn.response[0].text;
    bool hunyuan = template_.quirk == text::SwiftTemplate::Quirk::hunyuan_answer;
    std::string mark = hunyuan ? "<answer>" : template_.reasoning_close;
    if (auto at = text.rfind(mark); at != std::string::npos) text = text.substr(at + mark.size());
    text = trimmed(text);
    if (hunyuan && text.ends_with("</answer>")) text = trimmed(text.substr(0, text.size() - 9));
    text = template_.history_thinking_prefix + text;
  }
}

}  // namespace hone::data

#include "hone/data/formats/factory_turns.h"

#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

bool is_question(const std::string& role) { return role == "user" || role == "tool"; }
bool is_response(const std::string& role) { return role == "assistant" || role == "tool_call"; }

}  // namespace

std::string FactoryTurns::canonical(const std::string& tag) const {
  if (tag.empty()) return "";
  if (tag == options_.user_tag) return "user";
  if (tag == options_.assistant_tag) return "assistant";
  if (tag == options_.observation_tag) return "tool";
  if (tag == options_.function_tag) return "tool_call";
  if (tag == options_.system_tag) return "system";
  return "";
}

RowCheck FactoryTurns::read_turn(const Json& message, size_t index, Turn& out) const {
  if (!message.is_object())
    return row_issue(RowProblem::type, "messages[{}] is {}; expected an object", index, type_word(message));
  auto role = message.find(options_.role_tag), content = message.find(options_.content_tag);
  if (role == message.end() || !role->is_string())
    return row_issue(RowProblem::columns, "messages[{}] has no \"{}\" text; expected the role there{}", index, options_.role_tag,
                     message.contains("role") ? ", or in dataset_info.json \"tags\": {\"role_tag\": \"role\", …}" : "");
  out.role = canonical(role->get<std::string>());
  if (out.role.empty()) {
    const auto found = fmt::format("messages[{}].{} is \"{}\"", index, options_.role_tag, role->get<std::string>().substr(0, 40));
    if (options_.user_tag.empty() || options_.assistant_tag.empty())  // an entry's "tags" unset those that it does not list
      return row_issue(RowProblem::role, "{}; \"tags\" in dataset_info.json gives no role as \"{}\"", found,
                       options_.user_tag.empty() ? "user_tag" : "assistant_tag");
    return row_issue(RowProblem::role, "{}; expected {} or {}", found, options_.user_tag, options_.assistant_tag);
  }
  auto calls = message.find("tool_calls");
  if (options_.formatting == FactoryFormatOptions::Formatting::openai && is_response(out.role) && calls != message.end() &&
      calls->is_array() && !calls->empty()) {
    Json functions = Json::array();
    for (const auto& call : *calls) {
      if (!has_value(call.is_object() ? call : Json::object(), "function"))
        return row_issue(RowProblem::type, "messages[{}].tool_calls holds no function; expected {{\"function\": …}}", index);
      functions.push_back(call["function"]);
    }
    out = {"tool_call", text::python_dumps(functions)};
    return std::nullopt;
  }
  if (content == message.end() || !content->is_string())
    return row_issue(RowProblem::type, "messages[{}].{} is {}; expected text", index, options_.content_tag,
                     content == message.end() ? "missing" : type_word(*content));
  out.content = content->get<std::string>();
  return std::nullopt;
}

void FactoryTurns::flush_results() {
  if (results_.empty()) return;
  std::string joined;
  for (const auto& result : results_) joined += (joined.empty() ? "" : "\n</tool_response>\n<tool_response>\n") + result;
  messages_.push_back({"tool", std::move(joined), {}, {}, nullptr});
  results_.clear();
}

void FactoryTurns::add(Turn turn) {
  bool collects = options_.formatting == FactoryFormatOptions::Formatting::openai && turn.role == "tool";
  if (collects) return results_.push_back(std::move(turn.content));
  flush_results();
  messages_.push_back({std::move(turn.role), std::move(turn.content), {}, {}, nullptr});
}

RowCheck FactoryTurns::read(const Json& list) {
  if (list.is_null()) return row_issue(RowProblem::columns, "no column \"{}\"; expected the messages there", options_.messages);
  if (!list.is_array()) return row_issue(RowProblem::type, "\"{}\" is {}; expected a list", options_.messages, type_word(list));
  for (size_t i = 0; i < list.size(); ++i) {
    Turn turn;
    if (auto bad = read_turn(list[i], i, turn)) return bad;
    if (i == 0 && turn.role == "system")
      system_ = std::move(turn.content);
    else
      add(std::move(turn));
  }
  if (messages_.empty()) return row_issue(RowProblem::columns, "\"{}\" is empty; expected at least one turn", options_.messages);
  return check_order();
}

RowCheck FactoryTurns::check_order() const {
  for (size_t i = 0; i < messages_.size(); ++i)
    if (!(i % 2 == 0 ? is_question(messages_[i].role) : is_response(messages_[i].role)))
      return row_issue(RowProblem::order, "turn {} is \"{}\"; expected {}", i + 1, messages_[i].role,
                       i % 2 == 0 ? "user or observation" : "assistant or function call");
  if (options_.demands.pretraining) return std::nullopt;
  bool even = messages_.size() % 2 == 0;
  if (even == options_.ranking)
    return row_issue(RowProblem::order, "{} turns; expected an {} number{}", messages_.size(), options_.ranking ? "odd" : "even",
                     options_.ranking ? " before chosen and rejected" : " (the last one from the assistant)");
  return std::nullopt;
}

RowCheck FactoryTurns::append_response(const Json& message, std::string_view column, std::vector<Message>& to) const {
  Turn turn;
  if (auto bad = read_turn(message, 0, turn)) return row_issue(RowProblem::preference, "column {}: {}", column, bad->details);
  if (!is_response(turn.role))
    return row_issue(RowProblem::preference, "column {} is a message of \"{}\"; expected an assistant message", column,
                     turn.role);
  to.push_back({std::move(turn.role), std::move(turn.content), {}, {}, nullptr});
  return std::nullopt;
}

}  // namespace hone::data

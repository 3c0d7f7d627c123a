#include "hone/data/formats/checks.h"

#include <algorithm>

#include "hone/text/templates/python_json.h"

namespace hone::data {

Json take_column(Json& fields, const std::string& name) {
  auto& pairs = fields.get_ref<Json::object_t&>();
  auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == name; });
  if (found == pairs.end()) return nullptr;
  Json value = std::move(found->second);
  fields.erase(name);
  return value;
}

bool has_value(const Json& fields, const std::string& name) {
  auto found = fields.find(name);
  return found != fields.end() && !found->is_null();
}

std::string_view type_word(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

namespace {

RowCheck read_medium(const Json& item, std::string_view column, std::vector<std::string>& out) {
  if (item.is_string()) return out.push_back(item.get<std::string>()), std::nullopt;
  if (item.is_array()) return out.push_back(text::python_dumps(item)), std::nullopt;
  if (item.is_object())
    if (auto bytes = item.find("bytes");
        bytes != item.end() && bytes->is_string() && !bytes->get_ref<const std::string&>().empty())
      return out.push_back(bytes->get<std::string>()), std::nullopt;  // a data: URI, or base64
  if (item.is_object())
    for (const char* key : {"path", "url"})
      if (auto path = item.find(key); path != item.end() && path->is_string())
        return out.push_back(path->get<std::string>()), std::nullopt;
  return row_issue(RowProblem::type, "\"{}\" holds {}; expected a path or URL", column, type_word(item));
}

}  // namespace

RowCheck read_media(const Json& value, std::string_view column, std::vector<std::string>& out) {
  if (value.is_null()) return std::nullopt;
  if (!value.is_array()) return read_medium(value, column, out);
  for (const auto& item : value)
    if (auto bad = read_medium(item, column, out)) return bad;
  return std::nullopt;
}

RowIssue part_without_source(const std::string& kind) {
  return row_issue(RowProblem::media,
                   "a part of type \"{0}\" has no source, and the row no column \"{0}s\"; expected \"{0}\", \"url\", \"path\" or "
                   "\"base64\" in the part",
                   kind);
}

RowCheck read_tools(const Json& value, std::string& out, std::string_view column) {
  if (value.is_null()) return std::nullopt;
  if (value.is_array() || value.is_object()) return out = value.empty() ? "" : text::python_dumps(value), std::nullopt;
  if (!value.is_string())
    return row_issue(RowProblem::type, "\"{}\" is {}; expected a list or its JSON text", column, type_word(value));
  out = value.get<std::string>();
  if (out.find_first_not_of(" \t\r\n") == out.npos) return out.clear(), std::nullopt;
  if (auto parsed = parse_json(out); !parsed)
    return row_issue(RowProblem::type, "\"{}\" is not JSON text ({}); expected a list of function specs", column, parsed.error());
  return std::nullopt;
}

std::optional<bool> read_label(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
  if (value == "true" || value == "True") return true;
  if (value == "false" || value == "False") return false;
  return std::nullopt;
}

namespace {

bool may_follow(const std::string& role, const std::string& previous) {
  bool responded = previous == "assistant" || previous == "tool_call";
  if (role == "user") return previous != "tool";
  if (role == "tool") return responded || previous == "tool";
  return role != "system";
}

}  // namespace

RowCheck check_messages(const std::vector<Message>& messages, const RowRequirements& demands) {
  static const std::vector<std::string> known = {"system", "user", "assistant", "tool_call", "tool"};
  if (messages.empty()) return row_issue(RowProblem::columns, "no messages; expected at least one");
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& role = messages[i].role;
    if (std::find(known.begin(), known.end(), role) == known.end())
      return row_issue(RowProblem::role, "messages[{}].role is \"{}\"; expected system, user, assistant, tool_call or tool", i,
                       role.substr(0, 40));
    bool opens = i == 0 || (i == 1 && messages[0].role == "system");
    if (opens ? role == "tool" || (i == 1 && role == "system") : !may_follow(role, messages[i - 1].role))
      return row_issue(RowProblem::order,
                       "messages[{}] is \"{}\"{}; expected system first, then user and assistant alternating, tool after a call",
                       i, role, i == 0 ? " at the beginning" : fmt::format(" after \"{}\"", messages[i - 1].role));
  }
  if (demands.pretraining || demands.prompts_only) return std::nullopt;
  const auto& last = messages.back();
  if (last.role != "assistant" && last.role != "tool_call")
    return row_issue(RowProblem::empty_response, "the last message is \"{}\"; expected an assistant message", last.role);
  if (last.content.empty() && last.extra.is_null() && last.loss.value_or(true))
    return row_issue(RowProblem::empty_response, "the response is empty; expected text");
  return std::nullopt;
}

bool has_rejected_media(const Json& columns) {
  return std::ranges::any_of(kRejectedMedia, [&](const auto& kind) { return has_value(columns, kind.column); });
}

bool has_rejected_columns(const Json& columns) { return has_rejected_media(columns) || has_value(columns, "rejected_tools"); }

RowCheck read_rejected_columns(const Conversation& row, Conversation& rejected) {
  for (const auto& kind : kRejectedMedia) {
    if (!has_value(row.extra, kind.column)) continue;
    auto& media = rejected.*kind.media;
    media.clear();
    if (auto bad = read_media(row.extra[kind.column], kind.column, media)) return bad;
  }
  if (has_value(row.extra, "rejected_objects")) rejected.extra["objects"] = row.extra["rejected_objects"];
  if (has_value(row.extra, "rejected_tools")) {
    rejected.tools.clear();
    return read_tools(row.extra["rejected_tools"], rejected.tools, "rejected_tools");
  }
  return std::nullopt;
}

namespace {

// Columns that cannot be read count as different: the encoder reports them.
bool rejected_columns_differ(const Conversation& conversation) {
  if (!has_rejected_columns(conversation.extra)) return false;
  auto rejected = conversation;
  if (read_rejected_columns(conversation, rejected) || rejected.extra != conversation.extra) return true;
  if (rejected.tools != conversation.tools) return true;
  return std::ranges::any_of(kRejectedMedia, [&](const auto& kind) { return rejected.*kind.media != conversation.*kind.media; });
}

}  // namespace

RowCheck check_preference(const Conversation& conversation) {
  if (conversation.rejected.empty() || rejected_columns_differ(conversation)) return std::nullopt;
  auto same = [](const Message& a, const Message& b) { return a.role == b.role && a.content == b.content; };
  const auto &chosen = conversation.messages, &rejected = conversation.rejected;
  if (std::equal(chosen.begin(), chosen.end(), rejected.begin(), rejected.end(), same))
    return row_issue(RowProblem::preference, "the rejected response equals the chosen one; expected two that differ");
  return std::nullopt;
}

void make_plain_text(Conversation& conversation) {
  std::string text;
  for (const auto& message : conversation.messages) text += message.content;
  conversation.messages = {Message{"assistant", std::move(text), std::nullopt, std::nullopt, nullptr}};
  conversation.plain_text = true;
}

}  // namespace hone::data

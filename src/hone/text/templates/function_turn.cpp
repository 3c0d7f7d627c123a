// The text of a tool-call turn: reasoning and text around the JSON of the calls stay.
#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/tool_format.h"

namespace hone::text {
namespace {

// [begin, end) of the first `open` … `close`, delimiters included, or npos.
std::pair<size_t, size_t> between(const std::string& text, const std::string& open, const std::string& close) {
  auto begin = text.find(open);
  if (begin == std::string::npos) return {begin, begin};
  auto end = text.find(close, begin + open.size());
  return end == std::string::npos ? std::pair{end, end} : std::pair{begin, end + close.size()};
}

std::vector<ToolCall> parse_calls(const std::string& json_text) {
  auto parsed = parse_json(json_text);
  if (!parsed) throw FormatError("a tool call is not JSON: " + json_text.substr(0, 80));
  Json list = parsed->is_array() ? *parsed : Json::array({*parsed});
  std::vector<ToolCall> calls;
  for (const auto& entry : list) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() || !entry.contains("arguments"))
      throw FormatError("a tool call is not an object with \"name\" and \"arguments\": " + json_text.substr(0, 80));
    calls.push_back({entry["name"].get<std::string>(), entry["arguments"]});
  }
  if (calls.empty()) throw FormatError("a tool-call turn holds no call");
  return calls;
}

}  // namespace

std::string format_function_turn(const FactoryTemplate& chat_template, const ToolFormat& format, const std::string& content) {
  // LLaMA-Factory passes no delimiters to this kind of template, so neither calls nor reasoning are searched.
  bool looks = chat_template.kind != FactoryTemplate::Kind::system_in_user;
  if (auto [begin, end] = between(content, chat_template.call_open, chat_template.call_close);
      looks && begin != std::string::npos) {
    auto json = content.substr(begin + chat_template.call_open.size(),
                               end - begin - chat_template.call_open.size() - chat_template.call_close.size());
    return replace_all(content, content.substr(begin, end - begin), "") + format.write_calls(parse_calls(json));
  }
  auto [begin, end] = between(content, chat_template.reasoning_open, chat_template.reasoning_close);
  if (!looks || begin == std::string::npos) return format.write_calls(parse_calls(content));
  auto thought = content.substr(begin, end - begin);
  return thought + format.write_calls(parse_calls(replace_all(content, thought, "")));
}

}  // namespace hone::text

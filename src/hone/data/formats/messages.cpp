#include "hone/data/formats/messages.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/data/formats/python_literal.h"
#include "hone/media/source_scheme.h"
#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

const Json* first_of(const Json& message, const std::vector<std::string>& keys) {
  for (const auto& key : keys)
    if (auto found = message.find(key); found != message.end()) return &*found;
  return nullptr;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class MessagesParser {
 public:
  explicit MessagesParser(const SwiftFormatOptions& options) : options_(options) {}

  RowCheck parse(const Json& list, const std::optional<std::string>& system) {
    if (!list.is_array()) return row_issue(RowProblem::type, "\"messages\" is {}; expected a list", type_word(list));
    if (list.empty()) return row_issue(RowProblem::columns, "\"messages\" is empty; expected at least one message");
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_object())
        return row_issue(RowProblem::type, "messages[{}] is {}; expected an object", i, type_word(list[i]));
      if (auto bad = is_pair(list[i]) ? add_pair(list[i], i) : add(list[i], i)) return bad;
    }
    auto& messages = parsed_.messages;
    if (system && messages.front().role != "system")
      messages.insert(messages.begin(), Message{"system", *system, {}, {}, nullptr});
    return std::nullopt;
  }
  ParsedMessages take() { return std::move(parsed_); }

 private:
  bool is_pair(const Json& message) const {
    return !first_of(message, options_.role_keys) && !first_of(message, options_.content_keys) &&
           (first_of(message, options_.user_roles) || first_of(message, options_.assistant_roles));
  }

  RowCheck add_pair(const Json& pair, size_t index) {
    const Json *question = first_of(pair, options_.user_roles), *reply = first_of(pair, options_.assistant_roles);
    if (!question || !reply || !question->is_string() || !reply->is_string())
      return row_issue(RowProblem::type, "messages[{}] is half a pair; expected texts of both sides", index);
    parsed_.messages.push_back({"user", question->get<std::string>(), {}, {}, nullptr});
    parsed_.messages.push_back({"assistant", reply->get<std::string>(), {}, {}, nullptr});
    return std::nullopt;
  }

  std::string canonical_role(std::string role, size_t index) const {
    if (index == 0 && role == options_.system_role) return "system";
    if (contains(options_.user_roles, role)) return "user";
    if (contains(options_.assistant_roles, role)) return "assistant";
    std::string plain = role;
    std::replace(plain.begin(), plain.end(), '-', '_');
    if (plain == "function_call" || plain == "tool_call") return "tool_call";
    if (plain == "function_response" || plain == "observation" || plain == "observations" || plain == "tool_response")
      return "tool";
    return role;
  }

  RowCheck add(const Json& source, size_t index) {
    pending_empty_ = false;
    const Json* role = first_of(source, options_.role_keys);
    if (!role) return row_issue(RowProblem::columns, "messages[{}] has no \"{}\"", index, options_.role_keys.front());
    if (!role->is_string())
      return row_issue(RowProblem::type, "messages[{}].role is {}; expected a string", index, type_word(*role));
    Message message{canonical_role(role->get<std::string>(), index), "", {}, {}, nullptr};
    if (auto bad = read_loss(source, index, message)) return bad;
    read_extra(source, message);

    auto calls = source.find("tool_calls");
    bool has_calls = message.role == "assistant" && calls != source.end() && calls->is_array() && !calls->empty();
    const Json* content = first_of(source, options_.content_keys);
    if (!content || content->is_null()) {
      if (!has_calls) return row_issue(RowProblem::type, "messages[{}].content is missing or null; expected text", index);
    } else if (auto bad = add_content(*content, index, message)) {
      return bad;
    }
    return has_calls ? add_calls(*calls, index, message) : std::nullopt;
  }

  RowCheck read_loss(const Json& source, size_t index, Message& message) const {
    if (auto loss = source.find("loss"); loss != source.end() && !loss->is_null()) {
      message.loss = read_label(*loss);
      if (!message.loss)
        return row_issue(RowProblem::type, "messages[{}].loss is {}; expected true or false", index, type_word(*loss));
    }
    if (auto scale = source.find("loss_scale"); scale != source.end() && !scale->is_null()) {
      if (!scale->is_number())
        return row_issue(RowProblem::type, "messages[{}].loss_scale is {}; expected a number", index, type_word(*scale));
      message.loss_scale = scale->get<double>();
    }
    // LLaMA-Factory's v1: 0 is not learned.
    if (auto weight = source.find("loss_weight"); weight != source.end() && weight->is_number()) {
      message.loss = weight->get<double>() > 1e-6;
      if (*message.loss && *weight != 1) message.loss_scale = weight->get<double>();
    }
    return std::nullopt;
  }

  void read_extra(const Json& source, Message& message) const {
    for (const auto& [key, value] : source.items()) {
      bool known = key == "loss" || key == "loss_scale" || key == "loss_weight" || key == "tool_calls" ||
                   contains(options_.role_keys, key) || contains(options_.content_keys, key);
      if (!known && !value.is_null()) message.extra[key] = value;
    }
  }

  // Adds one message, or several if the content has blocks with calls and results.
  RowCheck add_content(const Json& content, size_t index, Message message) {
    bool text_list = content.is_array() && message.role != "tool_call" && !content.empty() && content.front().is_object() &&
                     content.front().contains("type");
    if (text_list) return add_blocks(content, index, std::move(message));
    if (content.is_string())
      message.content = content.get<std::string>();
    else if (message.role == "tool_call" || message.role == "tool")
      message.content = text::python_dumps(content);
    else
      return row_issue(RowProblem::type, "messages[{}].content is {}; expected text", index, type_word(content));
    pending_empty_ = message.content.empty() && message.role == "assistant" && message.extra.is_null();
    parsed_.messages.push_back(std::move(message));
    return std::nullopt;
  }

  RowCheck add_blocks(const Json& blocks, size_t index, Message message) {
    std::string text;
    auto flush = [&] {
      if (text.empty()) return;
      Message part = message;
      part.content = std::exchange(text, "");
      parsed_.messages.push_back(std::move(part));
    };
    auto bad_block = [&](const char* expected) {
      return row_issue(RowProblem::type, "messages[{}].content holds a block that is not {}", index, expected);
    };
    for (const auto& block : blocks) {
      if (!block.is_object() || !block.contains("type") || !block["type"].is_string()) return bad_block("an object with a type");
      auto type = block["type"].get<std::string>();
      if (type == "text") {
        const auto* written = first_of(block, {"text", "value"});
        if (!written || !written->is_string()) return bad_block("text");
        text += written->get<std::string>();
      } else if (type == "reasoning" && block.value("value", Json()).is_string()) {
        text += "<think>\n" + block["value"].get<std::string>() + "\n</think>\n\n";
      } else if (type == "tool_call" && block.contains("value")) {
        flush();
        auto call = block["value"];
        if (call.is_string())
          if (auto parsed = parse_json(call.get<std::string>())) call = std::move(parsed).value();
        if (!call.is_object()) return bad_block("a tool call with a name");
        add_call(call, message);
      } else if (type == "tool_use") {
        flush();
        if (!has_value(block, "name")) return bad_block("a tool use with a name");
        add_call({{"name", block["name"]}, {"arguments", block.value("input", Json::object())}}, message);
      } else if (type == "tool_result") {
        flush();
        Message result = message;
        result.role = "tool";
        if (auto bad = read_result(block.value("content", Json("")), result.content)) return bad_block("a tool result");
        parsed_.messages.push_back(std::move(result));
      } else if (auto bad = add_medium(block, type, text)) {
        return bad_block(bad->details.c_str());
      }
    }
    flush();
    return std::nullopt;
  }

  RowCheck read_result(const Json& content, std::string& text) {
    if (content.is_string()) return text = content.get<std::string>(), std::nullopt;
    if (!content.is_array()) return row_issue(RowProblem::type, "text");
    for (const auto& block : content) {
      const Json type = block.is_object() ? block.value("type", Json()) : Json();
      if (!type.is_string()) return row_issue(RowProblem::type, "text");
      if (type != "text") {  // what a tool shows
        if (auto bad = add_medium(block, type.get<std::string>(), text)) return bad;
        continue;
      }
      if (!has_value(block, "text") || !block["text"].is_string()) return row_issue(RowProblem::type, "text");
      text += block["text"].get<std::string>();
    }
    return std::nullopt;
  }

  // {"type": "image_url", "image_url": {"url": …}}, {"type": "image", "image": …}, LLaMA-Factory's v1 {"type": "image", "value":
  // …}, or {"type": "image"} with transformers' "url", "path" or "base64".
  static Json source_of(const Json& block, const std::string& type) {
    for (const auto& key : {type, std::string("value"), std::string("url"), std::string("path")})
      if (has_value(block, key)) return block[key];
    const auto encoded = block.value("base64", Json());
    if (!encoded.is_string()) return encoded;
    const auto& text = encoded.get_ref<const std::string&>();
    return media::is_data_uri(text) ? encoded : Json(fmt::format("data:{}/unknown;base64,{}", type, text));
  }

  // qwen_vl_utils' settings of one medium, which ms-swift does not read either.
  static void warn_of_settings(const Json& block) {
    for (const char* key : {"min_pixels", "max_pixels", "resized_height", "resized_width", "total_pixels", "fps", "nframes",
                            "min_frames", "max_frames", "video_start", "video_end"})
      if (has_value(block, key))
        log::warn_once(
            fmt::format("\"{}\" of content parts is ignored, as in ms-swift: sizes and frames follow the run's settings "
                        "(MAX_PIXELS, FPS …)",
                        key));
  }

  // The above, or Anthropic's {"type": "image", "source": …}. {"type": "input_audio", "input_audio": {"data": base64, "format":
  // "wav"}} contains the bytes.
  RowCheck add_medium(const Json& block, std::string type, std::string& text) {
    Json value = source_of(block, type);
    if (type.ends_with("_url")) type.resize(type.size() - 4);
    if (type == "input_audio") {
      type = "audio";
      value = value.is_object() ? value.value("data", Json()) : Json();
      if (!value.is_string()) return row_issue(RowProblem::type, "an input_audio with data");
      value = "data:audio/unknown;base64," + value.get<std::string>();
    }
    auto* list = type == "image"   ? &parsed_.images
                 : type == "video" ? &parsed_.videos
                 : type == "audio" ? &parsed_.audios
                                   : nullptr;
    if (!list) return row_issue(RowProblem::type, "text, image, video, audio, tool_use or tool_result");
    text += "<" + type + ">";
    warn_of_settings(block);
    if (auto source = block.find("source"); source != block.end() && source->is_object()) {
      auto word = [&](const char* key) {
        return source->value(key, Json()).is_string() ? (*source)[key].get<std::string>() : std::string();
      };
      if (word("type") == "url" && !word("url").empty()) return list->push_back(word("url")), std::nullopt;
      if (word("type") == "base64" && !word("data").empty())
        return list->push_back(fmt::format("data:{};base64,{}", word("media_type"), word("data"))), std::nullopt;
      return row_issue(RowProblem::type, "an image with a url or base64 source");
    }
    if (value.is_null()) parsed_.without_source.insert(type);
    if (type == "video" && value.is_array()) value = Json::array({value});  // the frames of one video
    return read_media(value, type, *list) ? RowCheck(row_issue(RowProblem::type, "a path or URL")) : std::nullopt;
  }

  RowCheck add_calls(const Json& calls, size_t index, const Message& message) {
    // An empty text next to calls is not a message of its own.
    if (std::exchange(pending_empty_, false)) parsed_.messages.pop_back();
    for (const auto& call : calls) {
      const Json& function = call.is_object() && call.contains("function") ? call["function"] : call;
      if (!function.is_object() || !has_value(function, "name"))
        return row_issue(RowProblem::type,
                         "messages[{}].tool_calls holds no function name; expected {{\"function\": {{\"name\": …}}}}", index);
      Json arguments = function.value("arguments", Json::object());
      if (arguments.is_string())
        if (auto parsed = parse_json(arguments.get<std::string>())) arguments = std::move(parsed).value();
      add_call({{"name", function["name"]}, {"arguments", std::move(arguments)}}, message);
    }
    return std::nullopt;
  }

  void add_call(const Json& call, const Message& like) {
    Message message{"tool_call", text::python_dumps(call), like.loss, like.loss_scale, nullptr};
    parsed_.messages.push_back(std::move(message));
  }

  const SwiftFormatOptions& options_;
  ParsedMessages parsed_;
  bool pending_empty_ = false;  // the message just added is an assistant's empty text
};

}  // namespace

Result<ParsedMessages> parse_messages(const Json& list, const std::optional<std::string>& system,
                                      const SwiftFormatOptions& options, const std::string& origin) {
  Json parsed_text;
  const Json* messages = &list;
  if (!options.inner_key.empty() && list.is_object() && list.contains(options.inner_key)) messages = &list[options.inner_key];
  if (messages->is_string()) {
    auto value = parse_value_text(messages->get_ref<const std::string&>());
    if (!value)
      return row_error(RowProblem::type, origin, fmt::format("\"messages\" is text that holds no list ({})", value.error()));
    parsed_text = std::move(value).value();
    messages = &parsed_text;
  }
  MessagesParser parser(options);
  if (auto bad = parser.parse(*messages, system)) return row_error(bad->problem, origin, bad->details);
  return parser.take();
}

}  // namespace hone::data

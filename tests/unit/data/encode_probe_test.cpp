// Answers questions of tests/data/test_peer_labels.py, which compares the answers with ms-swift and LLaMA-Factory asked live.
// HONE_ENCODE_PROBE names a JSON file [{"model": DIR, "config": {…}, "rows": [{"messages": …, "tools": …}]}]; the answer is
// written beside it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/data/encode/default_template.h"
#include "hone/data/encode/encoder.h"
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/template_tables.h"

namespace hone::data {
namespace {

std::vector<Message> messages_of(const Json& list) {
  std::vector<Message> messages;
  for (const auto& entry : list) {
    Message message{.role = entry.at("role"), .content = entry.at("content")};
    if (entry.contains("loss")) message.loss = entry["loss"].get<bool>();
    if (entry.contains("loss_scale")) message.loss_scale = entry["loss_scale"].get<double>();
    messages.push_back(std::move(message));
  }
  return messages;
}

Conversation conversation_of(const Json& row) {
  Conversation conversation{.messages = messages_of(row.at("messages")), .tools = row.value("tools", std::string())};
  if (row.contains("rejected")) conversation.rejected = messages_of(row["rejected"]);
  if (row.contains("extra")) conversation.extra = row["extra"];
  conversation.plain_text = row.value("plain_text", false);
  return conversation;
}

EncodeConfig config_of(const Json& json) {
  auto config = dialect_defaults(json.at("dialect") == "factory" ? Dialect::factory
                                 : json.at("dialect") == "jinja" ? Dialect::jinja
                                                                 : Dialect::swift);
  config.template_name = json.value("template", std::string());
  if (json.contains("system")) config.system = json["system"].get<std::string>();
  config.max_length = json.value("max_length", config.max_length);
  auto truncation = json.value("truncation", std::string("drop"));
  config.truncation = truncation == "left"    ? Truncation::left
                      : truncation == "right" ? Truncation::right
                      : truncation == "split" ? Truncation::split
                                              : Truncation::drop;
  config.loss_scale = json.value("loss_scale", config.loss_scale);
  config.train_on_prompt = json.value("train_on_prompt", false);
  config.mask_history = json.value("mask_history", false);
  config.pretraining = json.value("pretraining", false);
  config.use_chat_template = json.value("use_chat_template", true);
  if (json.contains("enable_thinking"))
    config.enable_thinking =
        json["enable_thinking"].is_null() ? std::nullopt : std::optional(json["enable_thinking"].get<bool>());
  if (json.contains("preserve_thinking")) config.preserve_thinking = json["preserve_thinking"].get<bool>();
  config.tool_format = json.value("tool_format", std::string());
  return config;
}

Json encoded(const Encoder& encoder, const Json& row) {
  auto conversation = conversation_of(row);
  if (row.value("prompt", false)) {
    auto prompt = encoder.encode_prompt(conversation);
    return prompt ? Json{{"ids", *prompt}} : Json{{"error", prompt.error()}};
  }
  if (!conversation.rejected.empty()) {
    auto pair = encoder.encode_pair(conversation);
    if (!pair) return {{"error", pair.error()}};
    return {{"ids", pair->first.ids},
            {"labels", pair->first.labels},
            {"rejected_ids", pair->second.ids},
            {"rejected_labels", pair->second.labels}};
  }
  auto parts = encoder.encode_split(conversation);
  if (!parts) return {{"error", parts.error()}};
  Json answer = {{"ids", Json::array()}, {"labels", Json::array()}, {"loss_scale", Json::array()}};
  for (const auto& sample : *parts) {
    answer["ids"].push_back(sample.ids);
    answer["labels"].push_back(sample.labels);
    answer["loss_scale"].push_back(sample.loss_scale);
  }
  return answer;
}

TEST(EncodeProbe, Answers) {
  const char* path = std::getenv("HONE_ENCODE_PROBE");
  if (!path) GTEST_SKIP() << "only for tests/data/test_peer_labels.py";
  std::map<std::string, std::shared_ptr<const text::Tokenizer>> tokenizers;
  Json answers = Json::array();
  for (const auto& request : parse_json(read_file(path)).or_throw(ExitCode::bad_data, path)) {
    std::string folder = request.at("model");
    auto& tokenizer = tokenizers[folder];
    if (!tokenizer) tokenizer = text::Tokenizer::load(folder);
    auto encoder = Encoder::make(config_of(request.at("config")), tokenizer, read_model_identity(folder));
    Json rows = Json::array();
    for (const auto& row : request.at("rows")) rows.push_back(encoded(*encoder, row));
    answers.push_back(std::move(rows));
  }
  write_file_atomically(std::string(path) + ".answer", answers.dump());
}

// Which template each model would be given, and every name that is known.
TEST(TemplateProbe, Answers) {
  const char* path = std::getenv("HONE_TEMPLATE_PROBE");
  if (!path) GTEST_SKIP() << "only for tests/data/test_template_names.py";
  Json answer{{"templates", text::swift_template_names()},
              {"factory", text::factory_template_names()},
              {"agents", text::agent_format_names()},
              {"chosen", Json::array()}};
  for (const auto& model : parse_json(read_file(path)).or_throw(ExitCode::bad_data, path))
    answer["chosen"].push_back(
        default_template(Dialect::swift, {.name = model.at("name"), .model_type = model.at("model_type")}));
  write_file_atomically(std::string(path) + ".answer", answer.dump());
}

}  // namespace
}  // namespace hone::data

#include "hone/train/rl/rollout_sample.h"

#include <algorithm>
#include <span>

namespace hone::train::rl {
namespace {

Json to_json(const std::vector<data::Message>& messages) {
  Json list = Json::array();
  for (const auto& message : messages) list.push_back({message.role, message.content});
  return list;
}

std::vector<data::Message> messages_from(const Json& list) {
  std::vector<data::Message> messages;
  for (const auto& message : list)
    messages.push_back({.role = message.at(0).get<std::string>(), .content = message.at(1).get<std::string>()});
  return messages;
}

}  // namespace

int64_t trained_tokens(const GeneratedCompletion& completion) {
  const auto& mask = completion.loss_mask;
  return mask.empty() ? static_cast<int64_t>(completion.tokens.size()) : std::ranges::count(mask, 1);
}

std::string before_last_answer(const RolloutSample& sample, const text::Tokenizer& tokenizer) {
  return tokenizer.decode(sample.prompt->ids) +
         tokenizer.decode(std::span(sample.completion.tokens).first(sample.turns.answer_begin));
}

data::Sample training_sample(const RolloutSample& sample) {
  return sample.prompt->completed(sample.completion.tokens, sample.completion.loss_mask);
}

Json to_json(const RolloutSample& sample) {
  const auto& completion = sample.completion;
  Json json{{"row", sample.prompt->row},   {"tokens", completion.tokens},     {"text", completion.text},
            {"cut", completion.truncated}, {"logprobs", completion.logprobs}, {"versions", completion.versions}};
  if (!completion.loss_mask.empty()) {
    json["mask"] = std::vector<int>(completion.loss_mask.begin(), completion.loss_mask.end());
    json["turns"] = {sample.turns.count, sample.turns.answer_begin};
    json["before"] = to_json(sample.turns.before);
    json["infos"] = sample.turns.infos;
  }
  if (sample.turns.own_prompt) json["prompt"] = sample.prompt->ids;
  return json;
}

void read_json(const Json& json, RolloutSample& sample) {
  sample.completion = {json.at("tokens").get<std::vector<text::TokenId>>(), json.at("text").get<std::string>(),
                       json.at("cut").get<bool>(), json.at("logprobs").get<std::vector<float>>(),
                       json.at("versions").get<std::vector<int64_t>>()};
  if (json.contains("mask")) {
    for (const auto& trained : json["mask"]) sample.completion.loss_mask.push_back(static_cast<char>(trained.get<int>()));
    sample.turns.count = json.at("turns").at(0).get<int64_t>();
    sample.turns.answer_begin = json.at("turns").at(1).get<size_t>();
    if (json.contains("before")) sample.turns.before = messages_from(json["before"]);
    if (json.contains("infos")) sample.turns.infos = json["infos"];
  }
  if (!json.contains("prompt")) return;
  sample.prompt = std::make_shared<const Prompt>(
      Prompt{sample.prompt->row, sample.prompt->question, json["prompt"].get<std::vector<text::TokenId>>()});
  sample.turns.own_prompt = true;
}

}  // namespace hone::train::rl

#include "hone/train/rl/rollout_sample.h"

#include <algorithm>

namespace hone::train::rl {

TrainingRounds training_rounds(std::span<const RolloutSample> episodes) {
  TrainingRounds rounds;
  for (const auto& episode : episodes) {
    for (const auto& round : episode.earlier) rounds.push_back(&round);
    rounds.push_back(&episode);
  }
  return rounds;
}

Tensor rollout_logps(const data::Batch& batch, const TrainingRounds& samples) {
  if (std::ranges::any_of(samples,
                          [](const auto* each) { return each->completion.logprobs.size() != each->completion.tokens.size(); }))
    return {};
  auto logps_t = at::zeros({batch.segments.total()}, at::kFloat);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto first = batch.segments.offsets[i] + static_cast<int64_t>(samples[i]->prompt->ids.size()) - 1;
    std::ranges::copy(samples[i]->completion.logprobs, logps_t.mutable_data_ptr<float>() + first);
  }
  return logps_t;
}

int64_t trained_tokens(const GeneratedCompletion& completion) {
  const auto& mask = completion.loss_mask;
  return mask.empty() ? static_cast<int64_t>(completion.tokens.size()) : std::ranges::count(mask, 1);
}

std::vector<std::vector<text::TokenId>> generated_turns(const GeneratedCompletion& completion) {
  const auto& mask = completion.loss_mask;
  if (mask.empty()) return {completion.tokens};
  std::vector<std::vector<text::TokenId>> turns;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (i == 0 || mask[i - 1] == 0) turns.emplace_back();
    turns.back().push_back(completion.tokens[i]);
  }
  return turns;
}

std::vector<data::Message> conversation_of(const RolloutSample& sample) {
  auto messages = sample.turns.before.empty() ? sample.prompt->question.messages : sample.turns.before;
  messages.push_back({.role = "assistant", .content = sample.completion.text, .loss = {}, .loss_scale = {}, .extra = {}});
  return messages;
}

std::string before_last_turn(const RolloutSample& sample, const text::Tokenizer& tokenizer) {
  return tokenizer.decode(sample.prompt->ids) +
         tokenizer.decode(std::span(sample.completion.tokens).first(sample.turns.last_turn_begin));
}

data::Sample training_sample(const RolloutSample& sample) {
  auto whole = sample.prompt->completed(sample.completion.tokens, sample.completion.loss_mask);
  add_media(sample.turns.media, sample.prompt->ids.size(), whole);
  return whole;
}

data::Conversation question_of(const RolloutSample& sample) {
  auto question = sample.prompt->question;
  if (!sample.turns.before.empty()) question.messages = sample.turns.before;
  for (const auto& medium : sample.turns.sources) question.images.push_back(medium.source);
  return question;
}

void add_media(const data::PlacedMedia& media, size_t first, data::Sample& sample) {
  auto further = data::moved(media, static_cast<ptrdiff_t>(first));
  std::ranges::move(further.pictures, std::back_inserter(sample.pictures));
  std::ranges::move(further.sounds, std::back_inserter(sample.sounds));
}

Json own_media_json(const TrainingRounds& samples) {
  Json list = Json::array();
  bool differ = false;
  for (const auto* sample : samples) {
    list.push_back(nullptr);
    const auto& prompt = *sample->prompt;
    if (!sample->turns.own_prompt && sample->turns.sources.empty()) continue;
    differ = true;
    auto whole = training_sample(*sample);
    data::MediaPlacement placement{prompt.sources, data::spans_of({std::move(whole.pictures), std::move(whole.sounds)})};
    placement.sources.insert(placement.sources.end(), sample->turns.sources.begin(), sample->turns.sources.end());
    list.back() = data::to_json(placement);
  }
  return differ ? list : Json();
}

Json messages_to_json(const std::vector<data::Message>& messages) {
  Json list = Json::array();
  for (const auto& message : messages) list.push_back({message.role, message.content, message.extra});
  return list;
}

// Checkpoints of earlier versions have no `extra`.
std::vector<data::Message> messages_from_json(const Json& list) {
  std::vector<data::Message> messages;
  for (const auto& message : list)
    messages.push_back({.role = message.at(0).get<std::string>(),
                        .content = message.at(1).get<std::string>(),
                        .loss = {},
                        .loss_scale = {},
                        .extra = message.size() > 2 ? message.at(2) : Json()});
  return messages;
}

Json to_json(const RolloutSample& sample) {
  const auto& completion = sample.completion;
  Json json{{"row", sample.prompt->row},      {"group", sample.group},       {"tokens", completion.tokens},
            {"text", completion.text},        {"cut", completion.truncated}, {"logprobs", completion.logprobs},
            {"versions", completion.versions}};
  if (!completion.loss_mask.empty()) {
    json["mask"] = std::vector<int>(completion.loss_mask.begin(), completion.loss_mask.end());
    json["turns"] = {sample.turns.count, sample.turns.last_turn_begin};
    json["before"] = messages_to_json(sample.turns.before);
    json["infos"] = sample.turns.infos;
  }
  if (sample.turns.own_prompt) {
    const auto& prompt = *sample.prompt;
    json["prompt"] = prompt.ids;
    json["question"] = messages_to_json(prompt.question.messages);
    json["images"] = prompt.question.images;
    if (prompt.has_media()) json["media"] = data::to_json({prompt.sources, data::spans_of({prompt.pictures, prompt.sounds})});
  }
  if (!sample.turns.sources.empty())
    json["turn_media"] = data::to_json({sample.turns.sources, data::spans_of(sample.turns.media)});
  for (const auto& round : sample.earlier) json["earlier"].push_back(to_json(round));
  return json;
}

namespace {

data::PlacedMedia placed_from(const Json& json, const std::vector<text::TokenId>& ids, const data::Encoder& encoder,
                              data::MediaSources& sources) {
  auto placement = data::placement_from(json);
  auto media = data::place_media(encoder, ids, placement).or_throw(ExitCode::bad_data, "the media of a rollout");
  sources = std::move(placement.sources);
  return media;
}

}  // namespace

void read_json(const Json& json, const data::Encoder& encoder, RolloutSample& sample) {
  sample.completion = {json.at("tokens").get<std::vector<text::TokenId>>(), json.at("text").get<std::string>(),
                       json.at("cut").get<bool>(), json.at("logprobs").get<std::vector<float>>(),
                       json.at("versions").get<std::vector<int64_t>>()};
  sample.group = json.value("group", sample.group);
  if (json.contains("mask")) {
    for (const auto& trained : json["mask"]) sample.completion.loss_mask.push_back(static_cast<char>(trained.get<int>()));
    sample.turns.count = json.at("turns").at(0).get<int64_t>();
    sample.turns.last_turn_begin = json.at("turns").at(1).get<size_t>();
    if (json.contains("before")) sample.turns.before = messages_from_json(json["before"]);
    if (json.contains("infos")) sample.turns.infos = json["infos"];
  }
  for (const auto& round : json.value("earlier", Json::array())) {
    sample.earlier.push_back({sample.prompt, {}});
    read_json(round, encoder, sample.earlier.back());
  }
  if (json.contains("turn_media"))
    sample.turns.media = placed_from(json["turn_media"], sample.completion.tokens, encoder, sample.turns.sources);
  if (!json.contains("prompt")) return;
  auto question = sample.prompt->question;
  if (json.contains("question")) question.messages = messages_from_json(json["question"]);
  if (json.contains("images")) question.images = json["images"].get<std::vector<std::string>>();
  Prompt prompt{sample.prompt->row, std::move(question), json["prompt"].get<std::vector<text::TokenId>>()};
  if (json.contains("media")) {
    auto media = placed_from(json["media"], prompt.ids, encoder, prompt.sources);
    prompt.pictures = std::move(media.pictures);
    prompt.sounds = std::move(media.sounds);
  }
  sample.prompt = std::make_shared<const Prompt>(std::move(prompt));
  sample.turns.own_prompt = true;
}

RolloutSample sample_from(const Json& json, const RolloutSample* before, const Prompts& prompts) {
  const auto row = json.at("row").get<int64_t>();
  const bool same = before && before->prompt->row == row && !before->turns.own_prompt;
  RolloutSample sample{same ? before->prompt : std::make_shared<const Prompt>(prompts.load(row)), {}};
  read_json(json, prompts.encoder(), sample);
  return sample;
}

}  // namespace hone::train::rl

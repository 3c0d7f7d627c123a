#include "hone/train/rl/rewards/plugin_builtins.h"

#include <cmath>

#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

// From the settings of a run, of which some may be null.
RewardConfig config_from(const Json& settings) {
  RewardConfig config;
  const auto read = [&](const char* name, auto& value) {
    if (settings.contains(name) && settings[name].is_number()) value = settings[name];
  };
  read("max_completion_length", config.max_completion_length);
  read("cosine_min_len_value_wrong", config.cosine_shortest_wrong);
  read("cosine_max_len_value_wrong", config.cosine_longest_wrong);
  read("cosine_min_len_value_correct", config.cosine_shortest_right);
  read("cosine_max_len_value_correct", config.cosine_longest_right);
  read("cosine_max_len", config.cosine_longest);
  read("repetition_n_grams", config.repetition_words);
  read("repetition_max_penalty", config.repetition_penalty);
  read("soft_max_length", config.soft_longest);
  read("soft_cache_length", config.soft_margin);
  return config;
}

Json scored(const Json& request) {
  auto config = config_from(request.at("settings"));
  config.functions = {request.at("builtin").get<std::string>()};
  const auto& completions = request.at("completions");
  std::vector<data::Conversation> questions(completions.size());
  std::vector<RewardInput> inputs;
  for (size_t i = 0; i < questions.size(); ++i) {
    questions[i].extra = Json::object();
    questions[i].origin = {"completion", static_cast<int64_t>(i + 1), ""};
    for (const auto& [name, values] : request.at("columns").items()) questions[i].extra[name] = values.at(i);
    inputs.push_back(
        {.question = &questions[i], .text = completions[i].get<std::string>(), .tokens = request.at("tokens").at(i)});
  }
  Json rewards = Json::array();
  for (double score : make_rewards(config).front()->score(inputs)) rewards.push_back(std::isnan(score) ? Json() : Json(score));
  return {{"rewards", std::move(rewards)}};
}

}  // namespace

Json builtin_rewards(const Json& request) {
  try {
    return scored(request);
  } catch (const std::exception& problem) {
    return {{"error", problem.what()}};
  }
}

}  // namespace hone::train::rl

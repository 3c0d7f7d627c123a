#include <algorithm>
#include <array>
#include <chrono>

#include "hone/base/strings/edit_distance.h"
#include "hone/data/datasets/write_rows.h"
#include "hone/hub/post_json.h"
#include "hone/train/rl/rewards/plugin_reward.h"

namespace hone::train::rl {
namespace {

bool is_reward_address(const std::string& name) { return name.starts_with("http://") || name.starts_with("https://"); }

constexpr std::string_view kRewards[] = {"accuracy", "format",        "react_format", "toolbench",
                                         "cosine",   "soft_overlong", "repetition",   "code"};

bool is_plugin(const std::string& name, const RewardConfig& config) {
  return !config.plugins.files.empty() && !is_reward_address(name) && std::ranges::count(kRewards, name) == 0;
}

std::unique_ptr<Reward> make_reward(const std::string& name, const RewardConfig& config, const std::vector<std::string>& names) {
  if (is_reward_address(name)) return make_http_reward(name, config, names);
  if (name == "accuracy") return make_accuracy_reward();
  if (name == "format") return make_format_reward();
  if (name == "react_format") return make_react_format_reward();
  if (name == "toolbench") return make_toolbench_reward();
  if (name == "cosine") return make_cosine_reward(config);
  if (name == "soft_overlong") return make_soft_overlong_reward(config);
  if (name == "repetition") return make_repetition_reward(config);
  if (name == "code") return make_code_reward(config.sandbox);
  constexpr std::string_view kNames[] = {"accuracy", "format",     "react_format",  "toolbench",
                                         "cosine",   "repetition", "soft_overlong", "code"};
  const auto near = nearest_word(name, kNames);
  throw UserError(ExitCode::usage, fmt::format("there is no reward called {}", name),
                  fmt::format("{}expected {}, a name that a file of `external_plugins` registers, "
                              "or the address of your own: http://127.0.0.1:9000/score (docs/reinforcement.md)",
                              near.empty() ? "" : fmt::format("did you mean {}; ", near), fmt::join(kNames, ", ")));
}

}  // namespace

std::vector<std::unique_ptr<Reward>> make_rewards(const RewardConfig& config) {
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<std::string> names;
  std::vector<std::string> registered;
  std::ranges::copy_if(config.functions, std::back_inserter(registered),
                       [&](const std::string& name) { return is_plugin(name, config); });
  auto worker = registered.empty() ? nullptr : std::make_shared<PluginWorker>(config.plugins, registered);
  for (const auto& function : config.functions) {
    rewards.push_back(is_plugin(function, config) ? make_plugin_reward(function, worker) : make_reward(function, config, names));
    names.push_back(rewards.back()->name());
  }
  if (!config.score_server.empty()) rewards.push_back(make_score_server_reward(config));
  return rewards;
}

std::vector<std::pair<std::string, std::string>> required_columns(const RewardConfig& config) {
  std::vector<std::pair<std::string, std::string>> columns;
  for (const auto& function : config.functions)
    if (!is_plugin(function, config) && !is_reward_address(function))
      for (auto& column : make_reward(function, config, {})->required_columns())
        columns.emplace_back(std::move(column), function);
  return columns;
}

void probe_rewards(const RewardConfig& config) {
  auto addresses = config.functions;
  std::erase_if(addresses, [](const std::string& function) { return !is_reward_address(function); });
  if (!config.score_server.empty()) addresses.push_back(config.score_server);
  for (const auto& function : addresses) {
    try {
      hub::require_listener(function);
    } catch (const std::runtime_error& problem) {
      throw UserError(ExitCode::failure,
                      fmt::format("the reward at {} cannot be reached: {}", hub::read_address(function)->shown, problem.what()),
                      "start its server first, or check the address (docs/reinforcement.md)");
    }
  }
}

namespace {

// With media and tools, as ms-swift gives them to rewards.
Json columns_of_row(const data::Conversation& row) {
  Json columns = row.extra.is_object() ? row.extra : Json::object();
  columns.update(data::media_columns(row));
  if (!row.tools.empty())
    if (auto tools = parse_json(row.tools)) columns["tools"] = std::move(*tools);
  return columns;
}

}  // namespace

Json columns_of(const std::vector<RewardInput>& completions) {
  Json columns = Json::object();
  for (size_t i = 0; i < completions.size(); ++i) {
    const auto row = columns_of_row(*completions[i].question);
    for (const auto& [name, value] : row.items()) {
      auto& column = columns[name];
      if (column.is_null()) column = Json::array();
      while (column.size() < i) column.push_back(nullptr);
      column.push_back(value);
    }
  }
  for (auto& column : columns)
    while (column.size() < completions.size()) column.push_back(nullptr);
  return columns;
}

std::string column_text(const RewardInput& completion, const std::string& column, const std::string& reward) {
  const auto& columns = completion.question->extra;
  if (!columns.is_object() || !columns.contains(column))
    throw UserError(ExitCode::bad_data,
                    fmt::format("{}: the row has no column \"{}\", which the reward {} compares completions with",
                                completion.question->origin.str(), column, reward),
                    fmt::format("add it, or name the column that holds it: `columns` '{{\"your_column\": \"{}\"}}'", column));
  const auto& value = columns[column];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace hone::train::rl

#include "hone/cli/configs/training/loss_scale_plugins.h"

#include <mutex>

#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/data/encode/loss_scale.h"
#include "hone/text/templates/agent_format.h"

namespace hone::cli {
namespace {

std::vector<std::string> foreign_loss_scales(const std::string& words) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < words.size();) {
    const auto end = std::min(words.find('+', begin), words.size());
    if (auto name = words.substr(begin, end - begin); !data::is_loss_scale(name)) names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

// One text at a time, from any thread.
class LossScaleWorker {
 public:
  LossScaleWorker(const train::rl::PluginConfig& plugins, const std::vector<std::string>& names)
      : worker_(plugins, {}, {{"loss_scales", names}}) {}
  bool is_binary(const std::string& name) { return worker_.greeting().at("binary").at(name).get<bool>(); }

  std::vector<data::WeightedText> weigh(const std::string& name, const std::string& text, const std::string& query) {
    std::lock_guard lock(mutex_);
    const auto result = worker_.each("loss_scale", {Json{{"name", name}, {"context", text}, {"query", query}}}, {}).front();
    if (!result) throw text::FormatError(fmt::format("the plugin's loss_scale {} failed: {}", name, result.error()));
    std::vector<data::WeightedText> parts;
    for (size_t i = 0; i < result->at("parts").size(); ++i)
      parts.push_back({result->at("parts")[i].get<std::string>(), result->at("weights").at(i).get<double>()});
    return parts;
  }

 private:
  std::mutex mutex_;
  train::rl::PluginWorker worker_;
};

}  // namespace

void add_plugin_loss_scales(const Options& options) {
  train::rl::RewardConfig rewards;
  if (RewardArguments(options).external_plugins.has_value()) read_plugin_options(options, rewards);
  if (rewards.plugins.files.empty()) return;
  const auto names = foreign_loss_scales(TemplateArguments(options).loss_scale.text());
  if (names.empty()) return;
  auto worker = std::make_shared<LossScaleWorker>(rewards.plugins, names);
  for (const auto& name : names)
    data::add_loss_scale(
        name, {.binary = worker->is_binary(name), .weigh = [worker, name](const std::string& text, const std::string& query) {
                 return worker->weigh(name, text, query);
               }});
}

}  // namespace hone::cli

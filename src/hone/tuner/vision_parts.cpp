#include "hone/tuner/vision_parts.h"

#include <map>
#include <set>

#include "hone/base/error.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

// Parts under a tower's path that do not belong to it: mergers, and the patch embedding.
std::string others_inside(const model::VisionNames& names) {
  std::string others = escaped_path("." + names.patch_embed.substr(0, names.patch_embed.rfind('.')));
  for (const auto& path : {names.merger, names.deepstack})
    if (path.starts_with(names.tower + ".")) others = escaped_path(path.substr(names.tower.size())) + "|" + others;
  return "(?!" + others + ")";
}

bool is_heard(const std::string& name, const model::DecoderConfig& config) {
  return config.audio && config.audio->is_of_tower(name);
}

// Names such as up_proj occur both in a tower and in the language model, so each part is named by its own path. `name` is one of
// its layers.
std::string path_of(ModelPart part, const std::string& name, const model::DecoderConfig& config,
                    const std::vector<int64_t>& layers) {
  const auto& names = config.vision->names;
  const bool heard = is_heard(name, config);
  switch (part) {
    case ModelPart::llm:
      if (!layers.empty())
        return fmt::format("{}\\.({})\\..*\\.", escaped_path(config.names.model + "." + config.names.layers),
                           fmt::join(layers, "|"));
      return escaped_path(config.names.model) + "(?=\\.).*\\.";
    case ModelPart::aligner:
      if (heard) return escaped_path(config.audio->tower) + "\\.";
      return (names.deepstack.empty() ? escaped_path(names.merger)
                                      : fmt::format("({}|{})", escaped_path(names.merger), escaped_path(names.deepstack))) +
             "(?=\\.).*\\.";
    default:
      return heard ? escaped_path(config.audio->tower) + "(?=\\.)(?!\\.proj).*\\."
                   : escaped_path(names.tower) + "(?=\\.)" + others_inside(names) + ".*\\.";
  }
}

}  // namespace

ModelPart part_of(const std::string& name, const model::DecoderConfig& config) {
  if (is_heard(name, config)) return config.audio->is_of_projector(name) ? ModelPart::aligner : ModelPart::vit;
  if (!config.vision || !config.vision->is_of_tower(name)) return ModelPart::llm;
  return config.vision->is_of_merger(name) ? ModelPart::aligner : ModelPart::vit;
}

bool is_frozen(ModelPart part, const FrozenParts& frozen) {
  return part == ModelPart::llm ? frozen.llm : part == ModelPart::vit ? frozen.vit : frozen.aligner;
}

std::string linear_targets(model::CausalLM& model, const FrozenParts& frozen, const std::vector<int64_t>& layers) {
  const auto& config = model.config();
  std::map<std::string, std::set<std::string>> names;
  for (const auto* linear : model.tree().linears())
    if (const auto part = part_of(linear->name, config); linear->name != model.head().name && !is_frozen(part, frozen))
      names[path_of(part, linear->name, config, layers)].emplace(last_part(linear->name));
  if (names.empty())
    throw UserError(ExitCode::usage, "freeze_llm, freeze_vit and freeze_aligner leave nothing to adapt",
                    "set one of them to false");
  std::vector<std::string> parts;
  for (const auto& [path, last] : names) parts.push_back(fmt::format("{}({})", path, fmt::join(last, "|")));
  return fmt::format("^({})$", fmt::join(parts, "|"));
}

}  // namespace hone::tuner

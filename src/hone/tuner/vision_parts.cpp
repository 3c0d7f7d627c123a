#include "hone/tuner/vision_parts.h"

#include <map>
#include <set>

#include "hone/base/error.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

std::string escaped(const std::string& path) {
  std::string out;
  for (char c : path) out += c == '.' ? "\\." : std::string(1, c);
  return out;
}

// Parts under a tower's path that do not belong to it: mergers, and the patch embedding.
std::string others_inside(const model::VisionNames& names) {
  std::string others = escaped("." + names.patch_embed.substr(0, names.patch_embed.rfind('.')));
  for (const auto& path : {names.merger, names.deepstack})
    if (path.starts_with(names.tower + ".")) others = escaped(path.substr(names.tower.size())) + "|" + others;
  return "(?!" + others + ")";
}

bool is_heard(const std::string& name, const model::DecoderConfig& config) {
  return config.audio && config.audio->is_of_tower(name);
}

// Names such as up_proj occur both in a tower and in the language model, so each part is named by its own path. `name` is one of
// its layers.
std::string path_of(ModelPart part, const std::string& name, const model::DecoderConfig& config) {
  const auto& names = config.vision->names;
  const bool heard = is_heard(name, config);
  switch (part) {
    case ModelPart::llm:
      return escaped(config.names.model) + "(?=\\.).*\\.";
    case ModelPart::aligner:
      if (heard) return escaped(config.audio->tower) + "\\.";
      return (names.deepstack.empty() ? escaped(names.merger)
                                      : fmt::format("({}|{})", escaped(names.merger), escaped(names.deepstack))) +
             "(?=\\.).*\\.";
    default:
      return heard ? escaped(config.audio->tower) + "(?=\\.)(?!\\.proj).*\\."
                   : escaped(names.tower) + "(?=\\.)" + others_inside(names) + ".*\\.";
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

std::string linear_targets(model::CausalLM& model, const FrozenParts& frozen) {
  const auto& config = model.config();
  std::map<std::string, std::set<std::string>> names;
  for (const auto* linear : model.tree().linears())
    if (const auto part = part_of(linear->name, config); linear->name != model.head().name && !is_frozen(part, frozen))
      names[path_of(part, linear->name, config)].emplace(last_part(linear->name));
  if (names.empty())
    throw UserError(ExitCode::usage, "freeze_llm, freeze_vit and freeze_aligner leave nothing to adapt",
                    "set one of them to false");
  std::vector<std::string> parts;
  for (const auto& [path, last] : names) parts.push_back(fmt::format("{}({})", path, fmt::join(last, "|")));
  return fmt::format("^({})$", fmt::join(parts, "|"));
}

}  // namespace hone::tuner

#include "hone/tuner/adapter_files.h"

#include <cmath>
#include <map>
#include <set>

#include "hone/model/decoder.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {

std::vector<model::NamedParameter> adapter_tensors(model::CausalLM& model, const AttachedAdapter& adapter) {
  std::vector<model::NamedParameter> tensors;
  for (const auto& site : model.tree().slots())
    for (auto& weights : *site.adapters) {
      if (weights.adapter != adapter.name) continue;
      tensors.push_back(
          {site.owner + (site.kind == model::SlotKind::embedding ? ".lora_embedding_A" : ".lora_A.weight"), &weights.a});
      tensors.push_back(
          {site.owner + (site.kind == model::SlotKind::embedding ? ".lora_embedding_B" : ".lora_B.weight"), &weights.b});
      if (weights.magnitude.defined()) tensors.push_back({site.owner + ".lora_magnitude_vector", &weights.magnitude});
    }
  for_each_tuner(model, adapter, [&](model::Linear&, const std::string& owner, model::LinearTuner& tuner) {
    for (const auto& own : tuner.tensors()) tensors.push_back({owner + "." + own.name, own.value});
  });
  const TargetMatcher matcher(adapter.config);
  for (const auto& whole : adapter.modules_to_save) {
    // PEFT keeps an adapted module's own parameters one level down.
    const size_t dot = whole.name.rfind('.');
    const std::string path = whole.name.substr(0, dot), leaf = whole.name.substr(dot);
    tensors.push_back({matcher(path) ? path + ".base_layer" + leaf : whole.name, whole.value});
  }
  return tensors;
}

void save_adapter(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder) {
  io::Adapter files{adapter.config, {}};
  for (const auto& tensor : adapter_tensors(model, adapter)) files.tensors.emplace_back(tensor.name, tensor.value->detach());
  std::set<std::string> written;
  for_each_tuner(model, adapter, [&](model::Linear&, const std::string& owner, model::LinearTuner& tuner) {
    for (const auto& fixed : tuner.fixed()) files.tensors.emplace_back(owner + "." + fixed.name, fixed.value->detach());
    for (const auto& shared : tuner.shared())
      if (written.insert(shared.name).second) files.tensors.emplace_back(shared.name, shared.value->detach());
  });
  io::write_adapter(folder, files);
}

void save_init_lora(const AttachedAdapter& adapter, const fs::path& folder) {
  io::Adapter files{adapter.config, adapter.initial};
  files.config.init = "true";
  files.config.dora = false;  // only the pairs: magnitudes are trained
  files.config.modules_to_save.clear();
  io::write_adapter(folder, files);
}

void save_converted_adapter(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder) {
  io::Adapter files{adapter.config, {}};
  auto& config = files.config;
  config.init = "true";
  config.rank *= 2;
  const double growth = config.rslora ? std::sqrt(2.0) : 2.0;  // keeps the scale while the rank doubles
  config.alpha *= growth;
  for (auto& [name, rank] : config.rank_pattern) rank *= 2;
  for (auto& [name, alpha] : config.alpha_pattern) alpha *= growth;
  const std::map<std::string, Tensor> initial(adapter.initial.begin(), adapter.initial.end());
  for (const auto& tensor : adapter_tensors(model, adapter)) {
    auto start = initial.find(tensor.name);
    Tensor value = tensor.value->detach();
    if (start != initial.end()) {
      const bool is_a = tensor.name.ends_with(".lora_A.weight");
      const Tensor first = start->second.to(value.options());
      value = is_a ? at::cat({value, first}, 0) : at::cat({value, -first}, 1);
    }
    files.tensors.emplace_back(tensor.name, value);
  }
  io::write_adapter(folder, files);
}

}  // namespace hone::tuner

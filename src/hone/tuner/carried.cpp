#include "hone/tuner/carried.h"

#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"

namespace hone::tuner {

void append_carried(model::CausalLM& model, std::vector<io::TensorSource>& sources) {
  const auto files = model.decoder().files;
  if (!files) return;
  for (const auto& [name, entry] : files->entries())
    if (model.config().is_carried(name))
      sources.push_back({name, entry->dtype, entry->shape, [files, name = name] { return files->tensor(name); }});
}

}  // namespace hone::tuner

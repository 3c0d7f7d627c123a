// PEFT's adapter files: adapter_config.json and adapter_model.safetensors. Reads untrusted files and writes what PEFT loads.
// Files of ms-swift's own tuners are similar, in a subfolder.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/io/adapter_config.h"
#include "hone/io/safetensors.h"

namespace hone::io {

using NamedTensorList = std::vector<std::pair<std::string, Tensor>>;

// Tensors under their Hugging Face paths: PEFT's prefix "base_model.model." is removed on reading and added on writing. Tensors
// that belong to no module keep their full name, "base_model.vera_A".
struct Adapter {
  AdapterConfig config;
  NamedTensorList tensors;
};

// The folder of an adapter's files: the folder itself, or its default/, where ms-swift stores its own tuners; none if there is no
// adapter.
std::optional<fs::path> adapter_files_in(const fs::path& folder);

// Both throw UserError(bad_checkpoint) naming the file.
AdapterConfig read_adapter_config(const fs::path& folder);
Adapter read_adapter(const fs::path& folder);
void write_adapter(const fs::path& folder, const Adapter& adapter);

}  // namespace hone::io

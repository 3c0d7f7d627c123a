// safetensors as bytes in memory instead of a file.
#pragma once
#include "hone/io/safetensors.h"

namespace hone::io {

std::string safetensors_bytes(const std::vector<TensorSource>& tensors, const std::map<std::string, std::string>& metadata);

struct ReceivedTensors {
  std::map<std::string, std::string> metadata;
  std::vector<std::pair<std::string, Tensor>> tensors;  // copies, on the CPU
};
// From untrusted bytes: every size is checked.
Result<ReceivedTensors> parse_safetensors_bytes(std::string_view bytes);

}  // namespace hone::io

// Presents the quantized weights of a folder as full-precision ones under their own names.
#pragma once
#include <functional>
#include <map>

#include "hone/base/json.h"
#include "hone/io/safetensors.h"

namespace hone::io {

struct QuantizedEntry {
  TensorEntry entry;                   // as if it were stored whole
  std::vector<std::string> parts;      // the tensors it is made of, which nothing else needs
  std::function<Tensor()> dequantize;  // in float32, whatever type the entry names: a caller that needs that type rounds once
};

using EntryMap = std::map<std::string, const TensorEntry*>;
using ReadTensor = std::function<Tensor(const std::string&)>;

// By config.json's quantization_config. Throws
// UserError(bad_checkpoint) for unknown methods and inconsistent parts.
std::vector<QuantizedEntry> quantized_entries(const Json& quantization, const EntryMap& entries, const ReadTensor& read,
                                              const std::string& folder);

}  // namespace hone::io

#include "hone/io/safetensors_bytes.h"

#include <cstring>

namespace hone::io {

Result<ReceivedTensors> parse_safetensors_bytes(std::string_view bytes) {
  auto header = parse_safetensors_header(bytes, bytes.size());
  if (!header) return error("{}", header.error());
  ReceivedTensors received{.metadata = header->metadata, .tensors = {}};
  for (const auto& entry : header->entries) {
    auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
    if (entry.end > entry.begin)
      std::memcpy(tensor.mutable_data_ptr(), bytes.data() + header->data_offset + entry.begin, entry.end - entry.begin);
    received.tensors.emplace_back(entry.name, std::move(tensor));
  }
  return received;
}

}  // namespace hone::io

// The safetensors format: reading by memory map, writing completely or not at all. Headers are untrusted; every size is checked.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/device/tensor.h"

namespace hone::io {

namespace fs = std::filesystem;

struct TensorEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // in file order
  std::map<std::string, std::string> metadata;
  size_t data_offset = 0;  // where the tensors' bytes start in the file
};

// `file` holds at least the header; `file_size` is the size of the whole file.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view file, size_t file_size);

// A mapped file. Tensors alias the map and keep it alive; writing to one copies its pages and never changes the file.
class SafetensorsFile {
 public:
  // Throws UserError(bad_checkpoint) naming the file and the problem.
  explicit SafetensorsFile(const fs::path& path);

  const std::vector<TensorEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  bool contains(std::string_view name) const;
  Tensor tensor(std::string_view name) const;  // throws UserError when there is none
  Tensor tensor(const TensorEntry& entry) const;

 private:
  class Map;
  fs::path path_;
  std::shared_ptr<Map> map_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
};

// A tensor to write. `load` is called once, when the tensor is written, so that a large model need not be in memory.
struct TensorSource {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::function<Tensor()> load;

  size_t bytes() const;
  static TensorSource of(std::string name, const Tensor& tensor, std::optional<at::ScalarType> dtype = {});
};

// Writes a temporary file, syncs and renames it. Tensors are stored in the given order.
void write_safetensors(const fs::path& path, const std::vector<TensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace hone::io

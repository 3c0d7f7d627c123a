#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "hone/base/git_lfs.h"
#include "hone/base/json.h"
#include "hone/io/safetensors.h"
#include "hone/io/safetensors_types.h"

namespace hone::io {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxDimensions = 64;

std::optional<size_t> as_size(const Json& value) {
  if (!value.is_number_unsigned() && !(value.is_number_integer() && value.get<int64_t>() >= 0)) return std::nullopt;
  auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return number;
}

// Size of a tensor in bytes; nothing on overflow.
std::optional<size_t> byte_count(const std::vector<int64_t>& shape, size_t element) {
  size_t count = element;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, static_cast<size_t>(extent), &count)) return std::nullopt;
  if (count > static_cast<size_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return count;
}

Result<TensorEntry> parse_entry(const std::string& name, const Json& value, size_t data_size) {
  if (!value.is_object()) return error("tensor \"{}\" is described by {}; expected an object", name, value.type_name());
  if (!value.contains("dtype") || !value["dtype"].is_string()) return error("tensor \"{}\" has no dtype", name);
  TensorEntry entry{.name = name};
  auto dtype = dtype_of(value["dtype"].get<std::string>());
  if (!dtype) return error("tensor \"{}\" has the unknown dtype {}", name, value["dtype"].dump());
  entry.dtype = *dtype;

  if (!value.contains("shape") || !value["shape"].is_array() || value["shape"].size() > kMaxDimensions)
    return error("tensor \"{}\" has no usable shape", name);
  for (const auto& extent : value["shape"]) {
    auto size = as_size(extent);
    if (!size) return error("tensor \"{}\" has the extent {} in its shape", name, extent.dump());
    entry.shape.push_back(static_cast<int64_t>(*size));
  }
  const auto* offsets = value.contains("data_offsets") ? &value["data_offsets"] : nullptr;
  if (!offsets || !offsets->is_array() || offsets->size() != 2)
    return error("tensor \"{}\" has no data_offsets [begin, end]", name);
  auto begin = as_size((*offsets)[0]), end = as_size((*offsets)[1]);
  if (!begin || !end || *begin > *end) return error("tensor \"{}\" has the data_offsets {}", name, offsets->dump());
  if (*end > data_size) return error("tensor \"{}\" ends at byte {} of {}: the file is truncated", name, *end, data_size);
  auto bytes = byte_count(entry.shape, c10::elementSize(entry.dtype));
  if (!bytes || *bytes != *end - *begin)
    return error("tensor \"{}\" of shape {} {} takes {} bytes; expected {}", name, value["shape"].dump(),
                 value["dtype"].get<std::string>(), *end - *begin, bytes ? std::to_string(*bytes) : "more than any file holds");
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

// Tensors must cover the file without gaps or overlaps, as the format requires.
std::optional<Error> check_layout(const std::vector<TensorEntry>& entries, size_t data_size) {
  std::vector<const TensorEntry*> by_begin;
  for (const auto& entry : entries) by_begin.push_back(&entry);
  std::ranges::sort(by_begin, [](auto* a, auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  size_t position = 0;
  for (const auto* entry : by_begin) {
    if (entry->begin < position) return error("tensor \"{}\" overlaps the one before it", entry->name);
    if (entry->begin > position)
      return error("{} bytes before tensor \"{}\" belong to no tensor", entry->begin - position, entry->name);
    position = entry->end;
  }
  if (position != data_size) return error("the file holds {} bytes of tensors; its header describes {}", data_size, position);
  return std::nullopt;
}

// nlohmann keeps the last of two equal keys; hone rejects a file with a duplicate tensor name.
class DuplicateFinder : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> duplicate;
  bool start_object(std::size_t) override { return ++depth_ < 16; }
  bool end_object() override { return --depth_ >= 0; }
  bool key(std::string& name) override {
    if (depth_ != 1 || names_.insert(name).second) return true;
    duplicate = name;
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view file, size_t file_size) {
  if (file_size < kLengthBytes || file.size() < kLengthBytes)
    return error("{} bytes are too few for a safetensors file", file_size);
  if (is_git_lfs_pointer(file)) return error("{}", kGitLfsPointer);
  uint64_t length;
  std::memcpy(&length, file.data(), kLengthBytes);
  if constexpr (std::endian::native == std::endian::big) length = __builtin_bswap64(length);
  if (length > kMaxHeader)
    return error("the header claims {} bytes; at most {} are accepted (is this a safetensors file?)", length, kMaxHeader);
  if (length > file_size - kLengthBytes || length > file.size() - kLengthBytes)
    return error("the header claims {} bytes and the file has {}: it is truncated", length, file_size);

  auto text = file.substr(kLengthBytes, length);
  DuplicateFinder names;
  Json::sax_parse(text.begin(), text.end(), &names);
  if (names.duplicate) return error("tensor \"{}\" is described twice", *names.duplicate);
  auto json = parse_json(text, {.depth = 8});
  if (!json) return error("the header is not valid JSON: {}", json.error());
  if (!json->is_object()) return error("the header is {}; expected an object", json->type_name());

  SafetensorsHeader header{.data_offset = kLengthBytes + length};
  size_t data_size = file_size - header.data_offset;
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return error("__metadata__ is {}; expected an object", value.type_name());
      for (const auto& [key, item] : value.items())
        if (item.is_string()) header.metadata[key] = item.get<std::string>();
      continue;
    }
    auto entry = parse_entry(name, value, data_size);
    if (!entry) return Error{entry.error()};
    header.entries.push_back(*std::move(entry));
  }
  if (auto problem = check_layout(header.entries, data_size)) return *problem;
  return header;
}

}  // namespace hone::io

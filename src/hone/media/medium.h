// The source of an image, a video or audio: a file, a data: URI, bare base64, or a URL if fetching is enabled.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "hone/base/file.h"

namespace hone::media {

inline constexpr size_t kMostBytes = size_t{256} << 20;  // of one picture

struct SourceRules {
  bool paths = true;     // false: of a client's request, which must not read files here
  fs::path folder = {};  // for relative paths that name no file as they are (ROOT_IMAGE_DIR)
  size_t most_bytes = kMostBytes;
  // Downloads a URL to a file; null: URLs are rejected.
  std::function<Result<fs::path>(const std::string& url)> fetch = {};
};

class Medium {
 public:
  static Result<Medium> open(const std::string& source, const SourceRules& rules = {});
  std::string_view bytes() const;

 private:
  static Result<Medium> map(const fs::path& path, size_t most_bytes);
  explicit Medium(std::variant<MappedFile, std::string> content) : content_(std::move(content)) {}
  std::variant<MappedFile, std::string> content_;
};

// Bytes as a source.
std::string data_uri(std::string_view bytes, std::string_view type = "application/octet-stream");

// A source for messages: a path as it is, data as their type and length.
std::string describe_source(const std::string& source);

}  // namespace hone::media

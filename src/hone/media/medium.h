// Where the bytes of a picture are: a file, a data: URI or bare base64. Nothing is fetched from the network.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "hone/base/file.h"

namespace hone::media {

inline constexpr size_t kMostBytes = size_t{256} << 20;  // of one picture

struct SourceRules {
  bool paths = true;     // false: a request of somebody else, who must not read files here
  fs::path folder = {};  // for relative paths that name no file as they are (ROOT_IMAGE_DIR)
};

class Medium {
 public:
  static Result<Medium> open(const std::string& source, const SourceRules& rules = {});
  std::string_view bytes() const;

 private:
  explicit Medium(std::variant<MappedFile, std::string> content) : content_(std::move(content)) {}
  std::variant<MappedFile, std::string> content_;
};

// Bytes as a source.
std::string data_uri(std::string_view bytes);

// A source for messages: a path as it is, data as what it is and how long.
std::string describe_source(const std::string& source);

}  // namespace hone::media

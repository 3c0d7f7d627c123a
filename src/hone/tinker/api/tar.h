// A tar archive of a few files, piece by piece: an adapter of a large model is never in memory as a whole.
#pragma once
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "hone/base/file.h"

namespace hone::tinker {

class TarReader {
 public:
  // The files of `folder` by these names, at the top of the archive. They may be deleted meanwhile.
  TarReader(const std::filesystem::path& folder, const std::vector<std::string>& names);
  TarReader(const TarReader&) = delete;

  std::string next();  // at most a megabyte; "" at the end

 private:
  void append(std::string text);

  std::deque<std::string> texts_;  // headers and padding, which `parts_` points to
  std::vector<MappedFile> files_;
  std::deque<std::string_view> parts_;
};

}  // namespace hone::tinker

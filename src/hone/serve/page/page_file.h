// A file that is part of the program. The sources that cmake/EmbedFiles.cmake generates include this and nothing else.
#pragma once
#include <span>
#include <string_view>

namespace hone::serve {

struct PageFile {
  std::string_view name, content;
};

}  // namespace hone::serve

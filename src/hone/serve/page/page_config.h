// Appearance of the chat page.
#pragma once
#include <string>

namespace hone::serve {

struct PageConfig {
  std::string title;       // empty: the model's name
  std::string language;    // en or zh; empty: the browser's
  std::string media = {};  // what messages may hold in addition to text: "image video audio"
};

}  // namespace hone::serve

// Any bytes as YAML and as JSON: a value or an error.
#include <string_view>

#include "hone/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)hone::parse_yaml(text, {}, 10'000);
  (void)hone::parse_json(text);
  return 0;
}

// Any bytes as a chat template: parsed and rendered within small limits, without a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hone/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const hone::Json kVariables = hone::Json::parse(R"({"messages": [{"role": "user", "content": "héllo"},
      {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]}],
      "tools": [{"type": "function"}], "bos_token": "<s>", "n": 7})");
  hone::text::TemplateLimits limits{.steps = 20'000, .depth = 40, .output_bytes = 1 << 16};
  auto parsed = hone::text::ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (parsed.ok()) (void)parsed->render(kVariables).ok();
  return 0;
}

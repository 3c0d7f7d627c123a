// Any bytes as tokenizer.json: an error or a tokenizer that encodes and decodes, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hone/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  auto tokenizer = hone::text::tokenizer_from_json(input);
  if (!tokenizer) return 0;
  try {
    auto ids = (*tokenizer)->encode(input.substr(0, 400), {.add_special_tokens = true});
    (*tokenizer)->decode(ids);
    hone::text::StreamDecoder stream(**tokenizer, false);
    for (auto id : ids) stream.push(id);
    stream.finish();
  } catch (const hone::UserError&) {  // a text that the vocabulary cannot spell
  }
  return 0;
}

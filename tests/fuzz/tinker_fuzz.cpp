// Bytes as requests of the tinker SDK, protobuf and JSON: refused with a RequestError, or read.
#include <cstdint>
#include <string_view>

#include "hone/tinker/wire/forward_backward.h"
#include "hone/tinker/wire/json_dialect.h"
#include "hone/tinker/wire/json_fields.h"
#include "hone/tinker/wire/sample.h"

namespace {

using namespace hone::tinker;

template <class Read>
void tolerate(Read read) {
  try {
    read();
  } catch (const RequestError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tolerate([&] { read_address(bytes); });
  tolerate([&] { read_forward_backward(bytes); });
  auto body = hone::parse_json(bytes);
  if (!body || !body->is_object()) return 0;
  tolerate([&] { read_sample_request(*body); });
  for (bool forward_only : {false, true})
    tolerate([&] { read_forward_backward(forward_backward_from_json(*body, forward_only)); });
  return 0;
}

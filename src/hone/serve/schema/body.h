// Parses a request's body to JSON, with limits on everything that could make a later step expensive.
#pragma once
#include "hone/base/json.h"

namespace hone::serve {

struct BodyLimits {
  int depth = 64;
  size_t keys_per_object = 4096;  // looking a key up is linear
  size_t values = 1'000'000;
};

// An object without duplicate keys. Never throws.
Result<Json> parse_body(std::string_view text, const BodyLimits& limits = {});

}  // namespace hone::serve

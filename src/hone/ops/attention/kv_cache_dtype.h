// Storage formats of the KV cache.
#pragma once

namespace hone::ops {

// The compute dtype; float8; or 8-bit or 4-bit integers between the minimum and the maximum of a token's head.
enum class KvCacheDtype { plain, fp8_e5m2, fp8_e4m3, int8, int4 };

}  // namespace hone::ops

// In which form a cache keeps keys and values.
#pragma once

namespace hone::ops {

// As they were computed; 8-bit floats; or integers of 8 or 4 bits between the least and the greatest of a token's head.
enum class KvCacheDtype { plain, fp8_e5m2, fp8_e4m3, int8, int4 };

}  // namespace hone::ops

// A kernel's buffer that outlives its call.
#pragma once
#include <cstdint>
#include <vector>

namespace hone::ops::cpu {

// At least `size` numbers with any values. A vector that is resized down and up again writes zeros each time; this one only
// grows.
template <class T>
T* grown(std::vector<T>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

}  // namespace hone::ops::cpu

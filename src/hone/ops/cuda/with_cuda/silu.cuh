// SiLU of a pack and the gradients of silu(gate) * up.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

template <class T>
struct Silu {
  PackFloats<T> sigmoid, value;  // the value is rounded to T, as when it is stored
};
template <class T>
__device__ inline Silu<T> silu_of(const PackFloats<T>& gate) {
  Silu<T> found;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    found.sigmoid.values[j] = quick_reciprocal(1.0f + __expf(-gate.values[j]));
    found.value.values[j] = gate.values[j] * found.sigmoid.values[j];
  }
  found.value = floats_of(rounded_pack(found.value));
  return found;
}

template <class T>
struct SwigluGradients {
  PackFloats<T> gate, up;
};
template <class T>
__device__ inline SwigluGradients<T> swiglu_gradients(const PackFloats<T>& gate, const PackFloats<T>& up, const Silu<T>& silu,
                                                      const PackFloats<T>& dy) {
  SwigluGradients<T> found;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float sigmoid = silu.sigmoid.values[j];
    found.gate.values[j] = dy.values[j] * up.values[j] * sigmoid * (1.0f + gate.values[j] * (1.0f - sigmoid));
    found.up.values[j] = dy.values[j] * silu.value.values[j];
  }
  return found;
}

}  // namespace hone::ops::cuda

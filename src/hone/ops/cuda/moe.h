// The combine step of experts on an NVIDIA GPU: a token's rows, stored in expert order, are weighted and summed in one pass over
// memory, forward and backward. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// rows [T * k, h], of which token t has those at positions [t * k, t * k + k).
bool supports_combine(const Tensor& rows_rh, int64_t choices);
Tensor combine_rows(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk,
                    int64_t choices);  // undefined: all 1

struct CombineGradients {
  Tensor rows_rh, weights_tk;  // the second float32, if requested
};
CombineGradients combine_rows_backward(const Tensor& dy_th, const Tensor& rows_rh, const Tensor& places_r,
                                       const Tensor& weights_tk, bool of_weights);

}  // namespace hone::ops::cuda

// The experts' rows on an NVIDIA GPU: tokens copied to their experts' rows, the weighted SwiGLU between the experts' products,
// and a token's rows summed. One pass over memory each, forward and backward. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// rows [T * k, h], of which token t has those at positions [t * k, t * k + k) of `places`.
bool supports_combine(const Tensor& rows_rh, int64_t choices);
Tensor combine_rows(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk,
                    int64_t choices);  // undefined: all 1
// The inverse: each token's row at all of its places.
Tensor copy_rows(const Tensor& tokens_th, const Tensor& places_r, int64_t choices);

struct CombineGradients {
  Tensor rows_rh, weights_tk;  // the second float32, if requested
};
CombineGradients combine_rows_backward(const Tensor& dy_th, const Tensor& rows_rh, const Tensor& places_r,
                                       const Tensor& weights_tk, bool of_weights);

// silu(gate) * up * weight for rows [R, 2 w] of gate and up; row r is the choice order_r[r], whose weight is at that place of
// weights [T, k], float32.
bool supports_weighted_swiglu(const Tensor& both_rw);
Tensor weighted_swiglu(const Tensor& both_rw, const Tensor& weights_tk, const Tensor& order_r);
struct WeightedSwigluGradients {
  Tensor both_rw, weights_tk;
};
WeightedSwigluGradients weighted_swiglu_backward(const Tensor& dy, const Tensor& both_rw, const Tensor& weights_tk,
                                                 const Tensor& order_r);

}  // namespace hone::ops::cuda

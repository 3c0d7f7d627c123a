// Adam on one tensor, for optimizers that transform a parameter's gradient first.
#pragma once
#include <cmath>

#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

struct AdamMoments {
  Tensor first, second;

  // Adds the gradient and returns the update direction, before bias_correction.
  Tensor direction(const Tensor& gradient, const AdamConfig& adam) {
    first.mul_(adam.beta1).add_(gradient, 1 - adam.beta1);
    second.mul_(adam.beta2).addcmul_(gradient, gradient, 1 - adam.beta2);
    return first / second.sqrt().add_(adam.epsilon);
  }
};

// The factor of the learning rate in step `step`, counted from 1, since moments start at zero.
inline double bias_correction(const AdamConfig& adam, int64_t step) {
  const auto steps = static_cast<double>(step);
  return std::sqrt(1 - std::pow(adam.beta2, steps)) / (1 - std::pow(adam.beta1, steps));
}

}  // namespace hone::optim

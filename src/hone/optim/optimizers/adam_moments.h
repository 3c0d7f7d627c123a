// Adam on one tensor, for optimizers that show it something else than a parameter's gradient.
#pragma once
#include <cmath>

#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

struct AdamMoments {
  Tensor first, second;

  // Takes the gradient in and says where to go, before bias_correction.
  Tensor direction(const Tensor& gradient, const AdamConfig& adam) {
    first.mul_(adam.beta1).add_(gradient, 1 - adam.beta1);
    second.mul_(adam.beta2).addcmul_(gradient, gradient, 1 - adam.beta2);
    return first / second.sqrt().add_(adam.epsilon);
  }
};

// What the learning rate is multiplied by in step `step`, counted from 1, since moments begin at zero.
inline double bias_correction(const AdamConfig& adam, int64_t step) {
  const auto steps = static_cast<double>(step);
  return std::sqrt(1 - std::pow(adam.beta2, steps)) / (1 - std::pow(adam.beta1, steps));
}

}  // namespace hone::optim

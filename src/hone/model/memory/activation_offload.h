// Where the inputs of recomputed blocks wait for the backward pass: in pinned host memory. They leave while the next block
// computes, and come back while the block behind them does.
#pragma once
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "hone/device/tensor.h"

namespace hone::model {

class ActivationOffloader {
 public:
  struct OffloadedActivation {
    Tensor here, host;                          // on the device while it is needed there
    std::weak_ptr<OffloadedActivation> before;  // what the backward pass needs next
  };

  explicit ActivationOffloader(at::Device device);

  std::shared_ptr<OffloadedActivation> offload(const Tensor& x);
  Tensor fetch(OffloadedActivation& kept);  // once

 private:
  Tensor copied(const Tensor& tensor, const at::TensorOptions& to);

  at::Device device_;
  std::optional<c10::Stream> side_;  // copies run here; none where device and host are the same
  std::weak_ptr<OffloadedActivation> last_;
};

}  // namespace hone::model

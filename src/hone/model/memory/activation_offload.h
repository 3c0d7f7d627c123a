// Keeps the inputs of recomputed blocks in pinned host memory until the backward pass. They are copied out while the next block
// computes, and back while the block after them does.
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
    std::weak_ptr<OffloadedActivation> before;  // the backward pass needs it next
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

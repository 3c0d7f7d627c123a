// The processes that train together, as the trainer sees them.
#pragma once
#include "hone/device/tensor.h"
#include "hone/optim/optimizer.h"

namespace hone::train {

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual double sum(double value) = 0;
  virtual void sum_(Tensor& values) = 0;                           // in place, over all processes
  virtual void finish_gradients(optim::Optimizer& optimizer) = 0;  // afterwards every process holds the summed gradient
};

// One process: every sum is its own.
class SoloGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  double sum(double value) override { return value; }
  void sum_(Tensor&) override {}
  void finish_gradients(optim::Optimizer&) override {}
};

}  // namespace hone::train

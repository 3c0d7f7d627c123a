// Experts on other processes: rows are sent to them and their outputs are returned.
#pragma once
#include <memory>

#include "hone/device/tensor.h"

namespace hone::ops {

class ExpertDispatcher {
 public:
  // The routing of one batch of rows, kept for the return.
  class Route {
   public:
    virtual ~Route() = default;
    virtual const Tensor& rows_rh() const = 0;   // of all processes, for the experts here, sorted by expert
    virtual const Tensor& counts_e() const = 0;  // int64, how many rows each expert here has
    // The experts' outputs, returned to their origin in the order in which they were sent.
    virtual Tensor combine(const Tensor& rows_rh) const = 0;
  };
  virtual ~ExpertDispatcher() = default;
  // `rows_rh` sorted by expert, `counts_e` rows of each expert. Collective, also for a process without rows.
  virtual std::unique_ptr<Route> dispatch(const Tensor& rows_rh, const Tensor& counts_e) = 0;
};

}  // namespace hone::ops

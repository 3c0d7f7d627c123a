// Experts that other processes hold: rows travel to them and what they made of them back.
#pragma once
#include <memory>

#include "hone/device/tensor.h"

namespace hone::ops {

class ExpertDispatcher {
 public:
  // The way of one batch of rows, kept for the way back.
  class Route {
   public:
    virtual ~Route() = default;
    virtual const Tensor& rows_rh() const = 0;   // of all processes, for the experts here, sorted by expert
    virtual const Tensor& counts_e() const = 0;  // int64, how many rows each expert here has
    // What the experts made of them, where they came from and in the order in which they were sent.
    virtual Tensor combine(const Tensor& rows_rh) const = 0;
  };
  virtual ~ExpertDispatcher() = default;
  // `rows_rh` sorted by expert, `counts_e` of each of all experts. Every process calls it, also one that has no rows.
  virtual std::unique_ptr<Route> dispatch(const Tensor& rows_rh, const Tensor& counts_e) = 0;
};

}  // namespace hone::ops

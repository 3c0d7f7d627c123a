// Turns conversations into batches on background threads, in an order that depends only on the seed; resumable after any batch.
#pragma once
#include <memory>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/batches/batch.h"

namespace hone::data {

class Loader {
 public:
  virtual ~Loader() = default;
  // The next micro-batch of the endless sequence of epochs (the trainer decides when to stop).
  virtual Batch next() = 0;
  // Micro-batches per epoch for this rank; -1 when streaming.
  virtual int64_t batches_per_epoch() const = 0;
  virtual double epoch() const = 0;  // fractional epochs consumed by next()
  // Exact position after the last next(): restore() on a fresh loader of the same configuration continues with the same batches.
  virtual Json state() const = 0;
  virtual void restore(const Json& state) = 0;
  // Whether next() runs the current model, which is slow: metrics of earlier steps are reported first.
  virtual bool computes_with_model() const { return false; }
  // Whether a position saved with another number of processes applies to the current one. Streams cannot do this.
  virtual bool can_reshard_state(const Json& /*state*/) const { return false; }
};

}  // namespace hone::data

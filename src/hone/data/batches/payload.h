// The training data of a method besides tokens and targets: labels of full sequences, earlier log-probabilities, values of
// states. The method's collator makes it from samples and its loss reads it; nothing in between knows its content.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "hone/base/error.h"
#include "hone/data/sample.h"
#include "hone/device/tensor.h"

namespace hone::data {

class Payload {
 public:
  virtual ~Payload() = default;
  virtual std::unique_ptr<Payload> clone() const = 0;
  virtual std::vector<Tensor*> tensors() { return {}; }  // that go to the device with their batch
};

// Base class of a method's payload: struct KtoPayload : PayloadOf<KtoPayload> { … }.
template <class Own>
class PayloadOf : public Payload {
 public:
  std::unique_ptr<Payload> clone() const override { return std::make_unique<Own>(static_cast<const Own&>(*this)); }
};

template <class Own>
const Own& payload_as(const Payload& payload) {
  const auto* own = dynamic_cast<const Own*>(&payload);
  HONE_CHECK(own, "a batch carries the payload of another method");
  return *own;
}

// `sequences`: the samples of a batch in order.
using PayloadCollator = std::function<std::shared_ptr<const Payload>(const std::vector<const Sample*>& sequences)>;

}  // namespace hone::data

#include "hone/device/tensor_identity.h"

#include <gtest/gtest.h>

namespace hone::device {
namespace {

TEST(TensorIdentity, IsOfATensorNotOfItsValuesOrMemory) {
  const auto tensor = at::zeros({2, 3});
  const Tensor handle = tensor;
  EXPECT_EQ(identity_of(handle), identity_of(tensor));
  EXPECT_NE(identity_of(tensor.detach()), identity_of(tensor)) << "the same memory";
  EXPECT_NE(identity_of(tensor.clone()), identity_of(tensor));
}

TEST(TensorIdentity, RemainsWhenTheDataIsReplaced) {
  Tensor tensor = at::zeros({2, 3});
  const auto* before = identity_of(tensor);
  tensor.set_data(at::ones({4}));
  EXPECT_EQ(identity_of(tensor), before);
}

}  // namespace
}  // namespace hone::device

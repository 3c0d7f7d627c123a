#include "hone/model/memory/activation_offload.h"

#include <gtest/gtest.h>

#include "hone/model/memory/activation_checkpointing.h"

namespace hone::model {
namespace {

at::Device some_device() { return at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU); }

// Three blocks of one weight each: the loss and every gradient, with and without a store between the passes.
TensorList gradients(ActivationOffloader* store) {
  at::manual_seed(3);
  auto options = at::TensorOptions(some_device());
  auto x = at::randn({64, 16}, options).requires_grad_(true);
  TensorList weights;
  for (int i = 0; i < 3; ++i) weights.push_back(at::randn({16, 16}, options).requires_grad_(true));
  auto y = x;
  for (const auto& weight : weights)
    y = checkpoint([weight](const Tensor& in) { return TensorList{in + at::tanh(in.matmul(weight))}; }, y, {weight}, store)
            .front();
  auto loss = y.square().sum();
  loss.backward();
  TensorList found{loss.detach(), x.grad()};
  for (const auto& weight : weights) found.push_back(weight.grad());
  return found;
}

TEST(ActivationOffloader, ChangesNoGradient) {
  ActivationOffloader store(some_device());
  auto expected = gradients(nullptr);
  for (int pass = 0; pass < 2; ++pass) {  // the second begins where the first ended
    auto found = gradients(&store);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  }
}

TEST(ActivationOffloader, KeepsTheLastInputAloneOnTheDevice) {
  ActivationOffloader store(some_device());
  auto x = at::ones({4}, some_device());
  auto first = store.offload(x), second = store.offload(x * 2), third = store.offload(x * 3);
  EXPECT_FALSE(first->here.defined());
  EXPECT_FALSE(second->here.defined());
  EXPECT_TRUE(third->here.defined());
  EXPECT_TRUE(first->host.is_cpu());
  EXPECT_EQ(store.fetch(*third).sum().item<double>(), 12);
  EXPECT_TRUE(second->here.defined());  // it is on its way back while the third's block runs again
  EXPECT_FALSE(first->here.defined());
  EXPECT_EQ(store.fetch(*second).sum().item<double>(), 8);
  EXPECT_EQ(store.fetch(*first).sum().item<double>(), 4);
}

TEST(ActivationOffloader, WhatIsDroppedBeforeTheBackwardPassIsForgotten) {
  ActivationOffloader store(some_device());
  auto x = at::ones({4}, some_device());
  store.offload(x);
  auto kept = store.offload(x * 2);
  EXPECT_EQ(store.fetch(*kept).sum().item<double>(), 8);
}

}  // namespace
}  // namespace hone::model

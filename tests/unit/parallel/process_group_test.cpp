#include "hone/parallel/collectives/process_group.h"

#include <gtest/gtest.h>

#include "hone/parallel/sharding/flat_parameter.h"

namespace hone::parallel {
namespace {

// A world of one goes through the same backends as a large one: Gloo here, NCCL where there is a GPU.
class GroupOfOne : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !at::hasCUDA()) GTEST_SKIP() << "no GPU";
    config_.device = GetParam() == at::kCUDA ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    group_ = ProcessGroup::join(World(), config_);
  }
  Tensor counted(int64_t size) const { return at::arange(size, at::TensorOptions(config_.device).dtype(at::kFloat)); }
  Tensor empty(int64_t size) const { return at::empty({size}, at::TensorOptions(config_.device)); }

  ProcessGroupOptions config_;
  std::unique_ptr<ProcessGroup> group_;
};

TEST_P(GroupOfOne, EveryCollectiveGivesBackWhatWentIn) {
  auto x = counted(6), sum = counted(6), all = empty(6), part = empty(6), swapped = empty(6), said = counted(6);
  group_->all_reduce(sum)->wait();
  group_->all_gather(all, x)->wait();
  group_->reduce_scatter(part, x)->wait();
  group_->all_to_all(swapped, x)->wait();
  group_->broadcast(said, 0);
  group_->barrier();
  for (const auto& result : {sum, all, part, swapped, said}) EXPECT_TRUE(at::equal(result, x));
  EXPECT_EQ(group_->bytes_sent(), 0);
}

TEST_P(GroupOfOne, HostsCountsAndTextsTravelToo) {
  auto count = at::tensor({1.5, 2.5}, at::kDouble);
  group_->all_reduce(count)->wait();
  EXPECT_EQ(count.sum().item<double>(), 4);
  EXPECT_EQ(group_->gather_text("one"), std::vector<std::string>{"one"});
  auto inner = group_->subgroup("inner", {0});
  auto x = counted(3);
  inner->all_reduce(x)->wait();
  EXPECT_TRUE(at::equal(x, counted(3)));
}

// Who trains in half precision takes each pass's gradient away and adds it up in float32. The next pass must not write there.
TEST_P(GroupOfOne, GradientsOfEarlierPassesStayWhatTheyWere) {
  auto weight = counted(4).to(at::kBFloat16).requires_grad_(true);
  FlatParameterConfig config;
  config.type = at::kBFloat16;
  config.device = config_.device;
  FlatParameter flat({weight}, *group_, nullptr, config);
  auto& piece = flat.shards().front();
  Tensor total;
  for (double gradient : {1.0, 2.0, 3.0}) {
    weight.mutable_grad() = at::full({4}, gradient, weight.options().requires_grad(false));
    flat.start_reduce();
    flat.finish_reduce();
    auto fresh = piece.values.grad().to(at::kFloat);
    total.defined() ? void(total.add_(fresh)) : void(total = fresh);
    piece.values.mutable_grad().reset();
  }
  EXPECT_EQ(total.sum().item<double>(), 4 * 6.0);
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupOfOne, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) { return std::string(c10::DeviceTypeName(info.param)); });

}  // namespace
}  // namespace hone::parallel

#include "hone/parallel/collectives/process_group.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

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
  auto x = counted(6), sum = counted(6), all = empty(6), part = empty(6), swapped = empty(6), received = counted(6);
  group_->all_reduce(sum)->wait();
  group_->all_gather(all, x)->wait();
  group_->reduce_scatter(part, x)->wait();
  group_->all_to_all(swapped, x)->wait();
  group_->broadcast(received, 0);
  group_->barrier();
  for (const auto& result : {sum, all, part, swapped, received}) EXPECT_TRUE(at::equal(result, x));
  EXPECT_EQ(group_->bytes_sent(), 0);
  auto largest = counted(6), smallest = counted(6), rows = empty(6).view({3, 2});
  group_->all_reduce(largest, ReduceOp::max)->wait();
  group_->all_reduce(smallest, ReduceOp::min)->wait();
  group_->all_to_all(rows, x.view({3, 2}), {3}, {3})->wait();
  for (const auto& result : {largest, smallest, rows.view(-1)}) EXPECT_TRUE(at::equal(result, x));
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

// Two ranks as threads of one process, over Gloo.
void on_two_ranks(int port, const std::function<void(ProcessGroup&)>& work) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([rank, port, &work] {
      World world{.rank = rank, .size = 2, .local_rank = rank, .local_size = 2};
      world.master_port = port;
      auto group = ProcessGroup::join(world, {});
      work(*group);
      group->barrier();
    });
  for (auto& rank : ranks) rank.join();
}

// A port that nobody had a moment ago.
int free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

TEST(TwoRanks, SendUnevenPartsAndTaggedMessages) {
  on_two_ranks(free_port(), [](ProcessGroup& group) {
    const int rank = group.rank();
    // Rank 0 keeps one row and sends two; rank 1 sends none and keeps one.
    const auto sent = rank == 0 ? at::arange(6, at::kFloat).view({3, 2}) : at::full({1, 2}, 9.0f);
    auto received = at::zeros({rank == 0 ? 1 : 3, 2});
    group
        .all_to_all(received, sent, rank == 0 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{2, 1},
                    rank == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{0, 1})
        ->wait();
    EXPECT_EQ(received.sum().item<double>(), rank == 0 ? 1.0 : 2 + 3 + 4 + 5 + 18.0);

    auto largest = at::tensor({rank, -rank}, at::kFloat), smallest = largest.clone();
    group.all_reduce(largest, ReduceOp::max)->wait();
    group.all_reduce(smallest, ReduceOp::min)->wait();
    EXPECT_TRUE(at::equal(largest, at::tensor({1.0f, 0.0f})));
    EXPECT_TRUE(at::equal(smallest, at::tensor({0.0f, -1.0f})));

    // Messages are told apart by their tags, whatever the order in which they are taken.
    auto first = at::zeros({2}), second = at::zeros({2});
    if (rank == 0) {
      auto one = group.send(at::full({2}, 1.0f), 1, 7), two = group.send(at::full({2}, 2.0f), 1, 8);
      one->wait(), two->wait();
    } else {
      auto two = group.receive(second, 0, 8), one = group.receive(first, 0, 7);
      two->wait(), one->wait();
      EXPECT_EQ(first.sum().item<double>(), 2);
      EXPECT_EQ(second.sum().item<double>(), 4);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupOfOne, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) { return std::string(c10::DeviceTypeName(info.param)); });

}  // namespace
}  // namespace hone::parallel

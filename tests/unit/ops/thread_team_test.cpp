#include "hone/ops/cpu/thread_team.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "hone/device/num_threads.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/parallel.h"

namespace hone::ops::cpu {
namespace {

// Every number once, by as many threads as there may be, however short the work and long the pause before it.
TEST(ThreadTeam, EveryPieceIsComputedOnce) {
  for (int threads : {1, 2, 5, 64}) {
    device::set_num_threads(threads);
    for (int round = 0; round < 200; ++round) {
      if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::vector<int> seen(static_cast<size_t>(round * 7 + 1));
      parallel_pieces(static_cast<int64_t>(seen.size()), 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(seen.size()))
          << threads << " threads, round " << round;
    }
  }
  device::set_num_threads(2);
}

TEST(ThreadTeam, WorkWithinWorkStaysOnItsThread) {
  device::set_num_threads(4);
  std::atomic<int64_t> sum{0};
  parallel_pieces(64, 1, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(ThreadTeam::is_inside());
    const auto self = std::this_thread::get_id();
    parallel_pieces(100, 1, [&](int64_t from, int64_t to) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      sum += (to - from) * (end - begin);
    });
  });
  EXPECT_EQ(sum, 6400);
  EXPECT_FALSE(ThreadTeam::is_inside());
  device::set_num_threads(2);
}

TEST(ThreadTeam, AnExceptionIsPassedOnAndTheTeamGoesOn) {
  device::set_num_threads(4);
  for (int round = 0; round < 20; ++round) {
    auto failing = [](int64_t begin, int64_t) {
      if (begin >= 10) throw std::runtime_error("broken");
    };
    EXPECT_THROW(parallel_pieces(1000, 1, failing), std::runtime_error);
    std::atomic<int64_t> count{0};
    parallel_pieces(1000, 1, [&](int64_t begin, int64_t end) { count += end - begin; });
    EXPECT_EQ(count, 1000);
  }
  device::set_num_threads(2);
}

// Each thread has a team of its own, which ends with it.
TEST(ThreadTeam, ThreadsComputeSideBySide) {
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(6);
  for (size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      device::set_num_threads(3);
      for (int round = 0; round < 100; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_pieces(500, 5, [&](int64_t begin, int64_t end) { sum += end - begin; });
        sums[t] += sum;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), 6 * 100 * 500);
}

// A product's sums, each in one block; the blocks are as many for each thread and almost as wide.
TEST(ThreadTeam, BlocksOfAProductAreSharedEvenly) {
  constexpr int64_t kRows = 512, kDepth = 896;
  for (int threads : {1, 2, 3, 5})
    for (int64_t columns : {1, 12, 13, 896, 1152, 9728}) {
      device::set_num_threads(threads);
      std::atomic<int64_t> sums{0}, blocks{0}, widest{0}, narrowest{columns};
      std::vector<std::atomic<int>> seen(static_cast<size_t>(columns));
      PanelGrid(kRows, columns, kDepth).for_blocks([&](const PanelBlock& block) {
        ++blocks, sums += block.rows * block.columns;
        if (block.row == 0)
          for (int64_t c = 0; c < block.columns; ++c) ++seen[static_cast<size_t>(block.column + c)];
        for (int64_t before = widest; before < block.columns && !widest.compare_exchange_weak(before, block.columns);) {
        }
        for (int64_t before = narrowest; before > block.columns && !narrowest.compare_exchange_weak(before, block.columns);) {
        }
      });
      EXPECT_EQ(sums, kRows * columns) << threads << " threads, " << columns << " columns";
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), columns) << threads << " threads";
      EXPECT_LE(widest, PanelGrid::kColumns);
      EXPECT_LT(widest - narrowest, 2 * kPanelColumns) << threads << " threads, " << columns << " columns";
      const bool enough_panels = columns >= 8 * threads * kPanelColumns;  // four blocks of two panels for each thread
      EXPECT_TRUE(!enough_panels || blocks % threads == 0) << threads << " threads, " << columns << " columns";
    }
  device::set_num_threads(2);
}

}  // namespace
}  // namespace hone::ops::cpu

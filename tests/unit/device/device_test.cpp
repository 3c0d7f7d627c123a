#include "hone/device/device.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "hone/device/generator.h"
#include "hone/device/memory.h"

namespace hone::device {
namespace {

TEST(Device, PicksByName) {
  EXPECT_EQ(select_device("cpu"), at::Device(at::kCPU));
  for (const char* name : {"cuda:99", "npu:x", "tpu", "cuda:", "cpu:1:2"}) EXPECT_THROW(select_device(name), UserError) << name;
}

TEST(Device, SeedRepeats) {
  seed(3);
  auto first = at::rand({4});
  seed(3);
  EXPECT_TRUE(at::equal(first, at::rand({4})));
}

TEST(Memory, PeakFollowsALargeTensor) {
  reset_peak_memory(at::kCPU);
  auto before = memory_use(at::kCPU);
  at::ones({32 << 20});
  auto after = memory_use(at::kCPU);
  EXPECT_GT(after.peak, before.current + (100 << 20));
  EXPECT_GT(after.total, after.peak);
}

TEST(Memory, KeptBuffersAreReusedAndGivenBack) {
  enable_cpu_caching_allocator();
  void* first = at::ones({1 << 20}).data_ptr();
  EXPECT_EQ(at::ones({1 << 20}).data_ptr(), first);
  auto kept = memory_use(at::kCPU).current;
  empty_cpu_cache();
  EXPECT_LT(memory_use(at::kCPU).current, kept);
}

TEST(Memory, BuffersFrom128KilobytesOnAreKept) {
  enable_cpu_caching_allocator();
  for (int64_t floats : {32 << 10, 45'000, 200 << 10}) {
    auto buffer = at::full({floats}, 7.0f);
    const void* first = buffer.const_data_ptr();
    buffer.reset();
    buffer = at::empty({floats});
    EXPECT_EQ(buffer.const_data_ptr(), first) << floats;
    EXPECT_EQ(buffer[floats - 1].item<float>(), 7) << floats;  // new pages would be zeros
  }
}

// A step's large buffer stays while sizes that are requested once come and go.
TEST(Memory, BuffersUnusedForLongestAreGivenBackFirst) {
  enable_cpu_caching_allocator();
  empty_cpu_cache();
  constexpr int64_t kFloats = 16 << 20;
  at::empty({kFloats}).mutable_data_ptr<float>()[0] = 7;
  for (int64_t once = 64 << 10; once < 2 << 20; once += 16 << 10) {
    at::empty({once});
    ASSERT_EQ(at::empty({kFloats}).const_data_ptr<float>()[0], 7) << once;
  }
}

TEST(Memory, KeptBuffersServeCallersThatFreeByPointer) {
  enable_cpu_caching_allocator();
  for (size_t size : {size_t{64}, size_t{4} << 20}) {
    auto* allocator = c10::GetCPUAllocator();
    void* block = allocator->raw_allocate(size);
    ASSERT_NE(block, nullptr);
    allocator->raw_deallocate(block);
  }
}

}  // namespace
}  // namespace hone::device

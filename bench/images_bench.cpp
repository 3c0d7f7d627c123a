// Pictures a second from files to the rows that a tower reads, by two loader threads: images_bench FILES. Prints JSON.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "hone/data/encode/pictures.h"
#include "hone/device/memory.h"
#include "hone/device/tensor.h"

int main(int count, char** words) {
  using namespace hone::data;
  constexpr int kThreads = 2;
  hone::device::enable_cpu_caching_allocator();                 // as a training run does
  const auto config = std::make_shared<const PictureConfig>();  // Qwen2.5-VL's, whose largest image is 16384 tokens
  const std::vector<std::string> sources(words + 1, words + count);
  std::atomic<size_t> next{0}, tokens{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i; (i = next++) < sources.size();) {
      const auto planned = plan_pictures({sources[i]}, config);
      if (!planned) return void(failed = true);
      const auto rows = at::empty({static_cast<int64_t>(patch_row_values(*planned))}, at::kFloat);
      if (fill_patch_rows(*planned, {rows.data_ptr<float>(), static_cast<size_t>(rows.numel())})) failed = true;
      tokens += static_cast<size_t>(planned->front().plan.tokens);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (failed) return std::fprintf(stderr, "a file is no picture\n"), 1;
  fmt::print("{{\"images\": {}, \"tokens\": {}, \"seconds\": {}}}\n", sources.size(), tokens.load(), seconds);
  return 0;
}

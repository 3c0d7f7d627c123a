// Pictures a second from files to the rows that a tower reads, by two loader threads, and where a thread's time goes:
// images_bench FILES. Prints JSON.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "hone/data/encode/pictures.h"
#include "hone/device/memory.h"
#include "hone/device/tensor.h"
#include "hone/media/decode_image.h"

namespace {

using namespace hone::data;
namespace media = hone::media;

// Milliseconds of a processor that this thread has had.
double thread_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Stages {
  double decode = 0, resize = 0, all = 0;
};

bool fill(const std::vector<Picture>& picture) {
  const auto one_frame = static_cast<int64_t>(patch_row_values(picture)) / picture[0].config->processor.temporal_patch_size;
  const auto rows = at::empty({one_frame}, at::kFloat);  // as in a batch without videos
  return !fill_patch_rows(picture, {rows.data_ptr<float>(), static_cast<size_t>(rows.numel())});
}

// Of one picture, each stage alone and then all of them.
Stages stages_of(const std::vector<Picture>& picture) {
  const auto begin = thread_milliseconds();
  const auto medium = media::Medium::open(picture[0].source, {});
  const auto image = media::decode_image(medium->bytes());
  const auto decoded = thread_milliseconds();
  const auto& step = picture[0].geometry.steps.back();
  const auto resized = media::resize(*image, step.to, step.filter);
  const auto before_all = thread_milliseconds();
  fill(picture);
  return {decoded - begin, before_all - decoded, thread_milliseconds() - before_all};
}

}  // namespace

int main(int count, char** words) {
  constexpr int kThreads = 2, kTimed = 20;
  hone::device::enable_cpu_caching_allocator();                 // as a training run does
  const auto config = std::make_shared<const PictureConfig>();  // Qwen2.5-VL's, whose largest image is 16384 tokens
  const std::vector<std::string> sources(words + 1, words + count);
  std::atomic<size_t> next{0}, tokens{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i; (i = next++) < sources.size();) {
      const auto opened = open_pictures({sources[i]}, config);
      if (!opened || !fill(*opened)) return void(failed = true);
      tokens += static_cast<size_t>(opened->front().geometry.tokens);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (failed) return std::fprintf(stderr, "a file is not a picture\n"), 1;
  Stages sum;
  const size_t timed = std::min<size_t>(sources.size(), kTimed);
  for (size_t i = 0; i < timed; ++i) {
    const auto one = stages_of(*open_pictures({sources[i]}, config));
    sum.decode += one.decode, sum.resize += one.resize, sum.all += one.all;
  }
  const auto share = [&](double milliseconds) { return milliseconds / static_cast<double>(timed); };
  fmt::print(R"({{"images": {}, "tokens": {}, "seconds": {}, "decode_ms": {:.2f}, "resize_ms": {:.2f}, "rows_ms": {:.2f}}})"
             "\n",
             sources.size(), tokens.load(), seconds, share(sum.decode), share(sum.resize),
             share(sum.all - sum.decode - sum.resize));
  return 0;
}

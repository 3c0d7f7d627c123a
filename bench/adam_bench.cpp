// AdamW on the CPU, where offloaded optimizer state is updated: hone's vector code compared with libtorch's fused operator and a
// plain addition of two tensors, in bytes moved a second. A step reads parameter, gradient and both moments and writes three of
// them: 28 bytes an element. DeepSpeed's cpu_adam moves the same bytes with the same root and division.
#include <benchmark/benchmark.h>

#include "hone/device/memory.h"
#include "hone/device/num_threads.h"
#include "hone/optim/cpu_adam.h"

namespace hone::optim {
namespace {

AdamUpdate state_of(int64_t size) {
  AdamUpdate u{.rate = 1e-3, .weight_decay = 0.1, .step = 3};
  u.parameters = {at::rand({size})}, u.gradients = {at::rand({size})}, u.first = {at::rand({size})},
  u.second = {at::rand({size})};
  return u;
}

enum class Way { vectors, libtorch, addition };

void step(benchmark::State& state, Way way) {
  device::enable_cpu_caching_allocator();
  device::set_num_threads(static_cast<int>(state.range(1)));
  const auto u = state_of(state.range(0));
  const AdamConfig config;
  if (way == Way::vectors && !supports_cpu_adam(u, config)) return state.SkipWithError("this libtorch rounds in another way");
  for (auto _ : state) {
    if (way == Way::vectors)
      cpu_adam(u, config);
    else if (way == Way::libtorch)
      libtorch_adam(u, config);
    else
      at::add_out(const_cast<Tensor&>(u.first[0]), u.parameters[0], u.gradients[0]);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * (way == Way::addition ? 12 : 28));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"elements", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
  for (int64_t elements : {1 << 16, 1 << 25})
    for (int threads : {1, device::num_threads(), 64})
      bench->Args({elements, threads});  // 64: the cost of more threads than cores
}

BENCHMARK_CAPTURE(step, hone, Way::vectors)->Apply(sizes);
BENCHMARK_CAPTURE(step, libtorch, Way::libtorch)->Apply(sizes);
BENCHMARK_CAPTURE(step, addition, Way::addition)->Apply(sizes);

}  // namespace
}  // namespace hone::optim

BENCHMARK_MAIN();

#include "hone/train/loop/module_profiler.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "hone/base/log.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"

namespace hone::train {
namespace {

// Blocks and their two halves, by the names in files.
std::vector<std::string> watchable_modules(model::CausalLM& model) {
  std::vector<std::string> paths;
  for (auto& block : model.decoder().blocks) {
    const auto tree = block.module();
    paths.push_back(tree.path);
    for (const auto& child : tree.children)
      if (!child.children.empty()) paths.push_back(child.path);
  }
  return paths;
}

}  // namespace

ModuleProfiler::ModuleProfiler(model::CausalLM& model, const std::vector<std::string>& patterns) : model_(model) {
  const auto paths = watchable_modules(model);
  for (const auto& path : paths)
    for (const auto& pattern : patterns)
      if (::fnmatch(pattern.c_str(), path.c_str(), 0) == 0) times_.try_emplace(path);
  if (times_.empty())
    log::warning("no module matches `profile_modules`; blocks and their halves are timed, such as {} and {}", paths[0],
                 fmt::join(std::vector(paths.begin() + 1, paths.begin() + 3), ", "));
  for (auto* decoder : model::computing_decoders(model)) decoder->observer = this;
}

ModuleProfiler::~ModuleProfiler() {
  for (auto* decoder : model::computing_decoders(model_)) decoder->observer = nullptr;
}

ModuleProfiler::Instant ModuleProfiler::Instant::now(at::Device device) {
  Instant instant{std::chrono::steady_clock::now(), nullptr};
  if (device.is_cpu()) return instant;
  instant.event = std::make_shared<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  instant.event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return instant;
}

double ModuleProfiler::Instant::milliseconds_to(const Instant& later) const {
  if (!event) return std::chrono::duration<double, std::milli>(later.time - time).count();
  later.event->synchronize();
  return event->elapsedTime(*later.event);
}

// The first start matches the first end; a module without a backward path to its input has a start but no end.
void ModuleProfiler::Span::read() {
  const auto whole = std::min(begins.size(), ends.size());
  for (size_t i = 0; i < whole; ++i) milliseconds += begins[i].milliseconds_to(ends[i]);
  count += static_cast<int64_t>(whole);
  begins.clear();
  ends.clear();
}

void ModuleProfiler::note(const std::string& path, model::PassMoment moment, at::Device device) {
  using enum model::PassMoment;
  auto& times = times_.at(path);
  auto& span = moment == forward_begin || moment == forward_end ? times.forward : times.backward;
  (moment == forward_begin || moment == backward_begin ? span.begins : span.ends).push_back(Instant::now(device));
}

void ModuleProfiler::after_step() {
  for (auto& [path, times] : times_) times.forward.read(), times.backward.read();
}

std::string ModuleProfiler::report() {
  std::string lines;
  for (auto& [path, times] : times_) {
    if (times.forward.count == 0) continue;
    const auto mean = [](const Span& span) { return span.count > 0 ? span.milliseconds / static_cast<double>(span.count) : 0.0; };
    const double forward = mean(times.forward), backward = mean(times.backward);
    lines += fmt::format("\n  {}: fwd={:.3f}, bwd={:.3f}, total={:.3f}", path, forward, backward, forward + backward);
    times = {};
  }
  return lines.empty() ? lines : "[ModuleProfiler] Timing (ms):" + lines;
}

}  // namespace hone::train

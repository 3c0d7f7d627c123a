// Times selected modules, forward and backward: LLaMA-Factory's profile_modules.
#pragma once
#include <c10/core/Event.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/model/module_observer.h"

namespace hone::train {

class ModuleProfiler final : public model::ModuleObserver {
 public:
  // Watches the modules of `model` whose paths match a pattern, as in fnmatch: blocks, their attention, and their MLP or experts;
  // warns if nothing matches.
  ModuleProfiler(model::CausalLM& model, const std::vector<std::string>& patterns);
  ~ModuleProfiler() override;
  ModuleProfiler(const ModuleProfiler&) = delete;

  bool watches(const std::string& path) const override { return times_.contains(path); }
  void note(const std::string& path, model::PassMoment moment, at::Device device) override;
  // Reads the timers of the passes so far: the device must have finished them.
  void after_step();
  // Mean milliseconds per pass since the last report, a line for each module; empty if none was computed.
  std::string report();

 private:
  // A moment on the host's clock, or on the device's own.
  struct Instant {
    std::chrono::steady_clock::time_point time;
    std::shared_ptr<c10::Event> event;  // null: the host computes
    static Instant now(at::Device device);
    double milliseconds_to(const Instant& later) const;
  };
  struct Span {
    std::vector<Instant> begins, ends;
    double milliseconds = 0;
    int64_t count = 0;
    void read();
  };
  struct Times {
    Span forward, backward;
  };

  model::CausalLM& model_;
  std::map<std::string, Times> times_;
};

}  // namespace hone::train

// Observes the start and end of modules in a pass: blocks, their attention, their MLP or experts. For profilers.
#pragma once
#include <string>

#include "hone/device/tensor.h"

namespace hone::model {

enum class PassMoment { forward_begin, forward_end, backward_begin, backward_end };

class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  virtual bool watches(const std::string& path) const = 0;
  virtual void note(const std::string& path, PassMoment moment, at::Device device) = 0;
};

// One module of a pass: its start is recorded at once; end() adds hooks on input and output for its end and its backward pass.
// Nothing is recorded without an observer.
class ObservedModule {
 public:
  ObservedModule(ModuleObserver* observer, const std::string& path, const Tensor& input_th)
      : observer_(observer && observer->watches(path) ? observer : nullptr) {
    if (!observer_) return;
    path_ = path;
    input_th_ = input_th;
    observer_->note(path_, PassMoment::forward_begin, input_th.device());
  }

  void end(const Tensor& output_th) const {
    if (!observer_) return;
    const auto tell = [observer = observer_, path = path_, device = input_th_.device()](PassMoment moment) {
      return [=](const Tensor&) { observer->note(path, moment, device); };
    };
    observer_->note(path_, PassMoment::forward_end, input_th_.device());
    if (output_th.requires_grad()) output_th.register_hook(tell(PassMoment::backward_begin));
    if (input_th_.requires_grad()) input_th_.register_hook(tell(PassMoment::backward_end));
  }

 private:
  ModuleObserver* observer_;
  std::string path_;
  Tensor input_th_;
};

}  // namespace hone::model

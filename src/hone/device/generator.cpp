#include "hone/device/generator.h"

#include <mutex>

#include "hone/device/npu.h"
#include "hone/device/npu/symbol.h"

namespace hone::device {
namespace {

// Older releases of torch_npu, 2.7.1 among them, do not offer it to libtorch's globalContext().
const at::Generator& npu_generator(at::DeviceIndex card) {
  using Getter = const at::Generator& (*)(at::DeviceIndex);
  return npu::symbol<Getter>(RTLD_DEFAULT, "_ZN6at_npu6detail22getDefaultNPUGeneratorEa")(card);
}

}  // namespace

at::Generator default_generator(at::Device device) {
  return device.is_privateuseone() ? npu_generator(device.index()) : at::globalContext().defaultGenerator(device);
}

void seed(uint64_t value) {
  at::manual_seed(value);
  // libtorch asks torch_npu's hooks for the number of cards, and they return 0.
  if (!npu::loaded()) return;
  for (at::DeviceIndex card = 0; card < at::accelerator::deviceCount(); ++card) {
    auto generator = npu_generator(card);
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(value);
  }
}

}  // namespace hone::device

#include "cann_emulator/ops/named.h"

#include "cann_emulator/machine/memory.h"
#include "cann_emulator/ops/operator.h"

namespace cann {
namespace {

using Kernel = void (*)(const Tensors& in, const Tensors& out, const Attributes& attributes);

bool flag(const Attributes& attributes, const char* name) {
  auto found = attributes.flags.find(name);
  return found != attributes.flags.end() && found->second;
}

void qr(const Tensors& in, const Tensors& out, const Attributes& attributes) {
  auto [q, r] = at::linalg_qr(in[0], flag(attributes, "full_matrices") ? "complete" : "reduced");
  store(out[0], q), store(out[1], r);
}

// Singular values first, and right vectors as columns: op-plugin transposes them itself.
void svd(const Tensors& in, const Tensors& out, const Attributes& attributes) {
  if (!flag(attributes, "compute_uv")) return store(out[0], at::linalg_svdvals(in[0]));
  auto [u, s, vh] = at::linalg_svd(in[0], flag(attributes, "full_matrices"));
  store(out[0], s), store(out[1], u), store(out[2], vh.mT());
}

// torch_npu 2.7 passes the shift this way.
void right_shift(const Tensors& in, const Tensors& out, const Attributes&) {
  store(out[0], at::bitwise_right_shift(in[0], in[1]));
}

struct Named {
  const char* name;
  Kernel kernel;
};
constexpr Named kNamed[] = {{"Qr", qr}, {"Svd", svd}, {"RightShift", right_shift}};

Tensors views(const std::vector<aclTensor>& tensors) {
  Tensors out;
  for (const auto& tensor : tensors) out.push_back(view(&tensor));
  return out;
}

// The aclop path passes constants, such as scalars, in host memory.
Tensors input_views(const std::vector<aclTensor>& tensors) {
  Tensors out;
  for (const auto& tensor : tensors) {
    bool constant = tensor.data && !memory::is_device(tensor.data);
    out.push_back(constant ? at::from_blob(tensor.data, tensor.sizes, scalar_type(tensor.type)).clone() : view(&tensor));
  }
  return out;
}

}  // namespace

aclOpExecutor* named_operator(const std::string& name, const std::vector<aclTensor>& inputs,
                              const std::vector<aclTensor>& outputs, const Attributes& attributes) {
  for (const auto& known : kNamed)
    if (name == known.name)
      return new aclOpExecutor{known.name,
                               [=, kernel = known.kernel] { kernel(input_views(inputs), views(outputs), attributes); }};
  return nullptr;
}

}  // namespace cann

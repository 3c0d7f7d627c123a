// at::Tensor as torch.Tensor and back: the same tensor, with its memory, device and gradient. Python must have imported torch.
#pragma once
#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return tensor.defined() ? handle(THPVariable_Wrap(tensor)) : none().release();
  }
};

}  // namespace nanobind::detail

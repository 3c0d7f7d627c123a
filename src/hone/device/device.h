// Selects the compute device and its capabilities. Nothing above this folder names cuda or npu.
#pragma once
#include <string>
#include <string_view>

#include "hone/device/tensor.h"

namespace hone::device {

// "cpu", "cuda", "cuda:1", "npu:0,1", or "auto": the accelerator that libtorch sees, else the CPU. Without an index, or with a
// list, the local rank selects. Throws UserError(usage) listing what is available.
at::Device select_device(std::string_view name = "auto", int local_rank = 0);

std::string describe(at::Device device);    // "cuda:0", "cpu (2 threads, bf16 by AMX)"
bool supports_bfloat16(at::Device device);  // in hardware; without it bf16 weights are upcast in each product
bool supports_float16(at::Device device);
// The dtype in which weights of this dtype are stored: float16 for bfloat16 on an accelerator without it (Ascend 910A, 310P).
at::ScalarType supported_dtype(at::ScalarType wanted, at::Device device);
void synchronize(at::Device device);  // waits for queued work; nothing to wait for on the CPU

}  // namespace hone::device

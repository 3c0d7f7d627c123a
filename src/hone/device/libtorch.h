// The files of the loaded libtorch.
#pragma once
#include <filesystem>

namespace hone::device {

std::filesystem::path libtorch_folder();
// Whether the CUDA library is installed next to the others, loaded or not. torch_npu cannot share a process with it.
bool libtorch_made_for_cuda();

}  // namespace hone::device

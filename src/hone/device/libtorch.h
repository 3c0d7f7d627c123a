// The libtorch this program runs on, as files.
#pragma once
#include <filesystem>

namespace hone::device {

std::filesystem::path libtorch_folder();
// Whether the CUDA part is installed beside the others, loaded or not. torch_npu cannot share a process with it.
bool libtorch_made_for_cuda();

}  // namespace hone::device

// The devices of this machine and their state, read from the system without using libtorch.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hone::device {

struct DeviceRecord {
  std::string name;   // "cpu", "cuda:0", "npu:0"
  std::string model;  // "Neoverse-N1, 2 cores", "NVIDIA H200", "Ascend 910B3"
  int64_t memory_total = 0, memory_used = 0;
  std::optional<int> utilization_percent, celsius, watts;
  std::string error;  // empty when healthy
};

// The links between devices, as nvidia-smi and npu-smi name them: NV4, HCCS, SIO, PIX, PXB, PHB, NODE, SYS; X on the diagonal.
struct LinkMatrix {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> links;
  std::vector<std::string> cpus;  // cores near each device: "0-15"
};

// The CPU first, then accelerators. Measuring the CPU load takes a tenth of a second.
std::vector<DeviceRecord> inventory();
LinkMatrix link_matrix();

// Driver version of the NVIDIA devices and its CUDA version: "580.82 (CUDA 13.0)"; empty without a driver.
std::string cuda_driver();

std::string core_list(const std::vector<int>& cores);  // {0, 1, 2, 5} → "0-2,5"

}  // namespace hone::device

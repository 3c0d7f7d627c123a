#include "hone/train/plan/devices.h"

namespace hone::train {
namespace {

constexpr PlannedDevice kDevices[] = {
    {"Ascend 910B 32 GB", 32, 2.5}, {"Ascend 910B 64 GB", 64, 2.5},  {"Ascend 910_93 64 GB", 64, 2.5}, {"RTX 4090 24 GB", 24, 0.8},
    {"RTX 5090 32 GB", 32, 0.8},    {"A100 40 GB", 40, 1.0},         {"A100 80 GB", 80, 1.0},          {"H100 80 GB", 80, 1.2},
    {"H20 96 GB", 96, 1.2},         {"H200 141 GB", 140, 1.2},
};

}  // namespace

std::span<const PlannedDevice> planned_devices() { return kDevices; }

}  // namespace hone::train

// One HCCL communicator: c10d's Gloo between the processes, over memory of the emulated cards.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <memory>
#include <string>

#include "cann_emulator/acl/types.h"

namespace cann::hccl {

enum Result : int { kSuccess = 0, kBadParameter = 1, kNullPointer = 2, kInternal = 4, kUnsupported = 5, kTimeout = 9 };

// Where the ranks of a communicator meet; written by rank 0, carried to the others by torch_npu as opaque bytes.
struct RootInfo {
  char host[64];
  uint16_t port;
  char id[32];
  char reserved[4108 - 64 - 2 - 32];
};

struct Communicator {
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::string name;
  int rank = 0, size = 1;
  std::vector<std::pair<c10::intrusive_ptr<c10d::Work>, at::Tensor>> sending;  // kept until they are gone
};

RootInfo open_root();
std::unique_ptr<Communicator> join(int size, const RootInfo& root, int rank);

}  // namespace cann::hccl

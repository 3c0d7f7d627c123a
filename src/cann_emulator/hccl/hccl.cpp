// HCCL's C functions.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <numeric>

#include "cann_emulator/hccl/communicator.h"
#include "cann_emulator/machine/errors.h"
#include "cann_emulator/machine/fault_injection.h"
#include "cann_emulator/machine/memory.h"
#include "cann_emulator/machine/report.h"

using namespace cann;
using namespace cann::hccl;
using at::Tensor;

namespace {

at::ScalarType type_of(int type) {
  constexpr at::ScalarType kTypes[] = {at::kChar, at::kShort, at::kInt,   at::kHalf, at::kFloat,  at::kLong,
                                       at::kLong, at::kByte,  at::kShort, at::kInt,  at::kDouble, at::kBFloat16};
  if (type < 0 || type > 11) throw std::invalid_argument("data type " + std::to_string(type) + " is not supported by HCCL");
  return kTypes[type];
}

c10d::ReduceOp reduction(int op) {
  constexpr c10d::ReduceOp::RedOpType kOps[] = {c10d::ReduceOp::SUM, c10d::ReduceOp::PRODUCT, c10d::ReduceOp::MAX,
                                                c10d::ReduceOp::MIN};
  if (op < 0 || op > 3) throw std::invalid_argument("reduction " + std::to_string(op) + " is not supported by HCCL");
  return kOps[op];
}

Tensor wrap(const void* buffer, uint64_t count, int type) {
  auto dtype = type_of(type);
  void* at = memory::host_pointer(buffer, count * c10::elementSize(dtype));
  if (count && !at) throw std::invalid_argument("a buffer reaches outside device memory");
  return at::from_blob(at, {static_cast<int64_t>(count)}, at::TensorOptions(dtype));
}

// Gloo reduces only types the host computes in; narrower types are sent as float32.
Tensor summable(const Tensor& x) {
  bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kShort;
  return narrow ? x.to(x.scalar_type() == at::kShort ? at::kInt : at::kFloat) : x.clone();
}

Status timed_out(const Communicator& comm, const char* what, const std::string& cause) {
  return fail(kTimeout,
              std::string("EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not "
                          "received the Notify record from remote rank. Collective: ") +
                  what + ", rank " + std::to_string(comm.rank) + " of " + std::to_string(comm.size) + ". " + cause);
}

template <class Act>
int collective(void* opaque, const char* what, Act&& act) {
  auto* comm = static_cast<Communicator*>(opaque);
  if (!comm) return fail(kNullPointer, "EI0003: null communicator");
  report::launched(what);
  if (faults::at_collective()) return timed_out(*comm, what, "");
  try {
    act(*comm);
    return kSuccess;
  } catch (const std::invalid_argument& error) {
    return fail(kBadParameter, std::string("EI0003: ") + what + ": " + error.what());
  } catch (const std::exception& error) {
    return timed_out(*comm, what, error.what());
  }
}

void exchange(Communicator& comm, const Tensor& sent, const Tensor& received, std::vector<int64_t> out, std::vector<int64_t> in) {
  Tensor from = sent, to = received;
  comm.group->alltoall_base(to, from, in, out)->wait();
}

std::vector<int64_t> counts(const void* values, int size) {
  auto* begin = static_cast<const uint64_t*>(values);
  return {begin, begin + size};
}

void send(Communicator& comm, const Tensor& values, int to) {
  std::vector<Tensor> copy{values.clone()};
  std::erase_if(comm.sending, [](const auto& entry) { return entry.first->isCompleted(); });
  comm.sending.emplace_back(comm.group->send(copy, to, 0), copy[0]);
}

void receive(Communicator& comm, Tensor values, int from) {
  std::vector<Tensor> into{values};
  comm.group->recv(into, from, 0)->wait();
}

}  // namespace

CANN_EXPORT int HcclGetRootInfo(RootInfo* info) {
  static_assert(sizeof(RootInfo) == 4108);
  try {
    *info = open_root();
    return kSuccess;
  } catch (const std::exception& error) {
    return fail(kInternal, std::string("EI0006: cannot listen for the ranks of a communicator: ") + error.what());
  }
}

CANN_EXPORT int HcclCommInitRootInfo(uint32_t size, const RootInfo* info, uint32_t rank, void** comm) {
  try {
    *comm = join(static_cast<int>(size), *info, static_cast<int>(rank)).release();
    return kSuccess;
  } catch (const std::exception& error) {
    return fail(kTimeout, "EI0006: Getting socket times out. Reason: not all ranks joined within HCCL_CONNECT_TIMEOUT; rank " +
                              std::to_string(rank) + " of " + std::to_string(size) + ": " + error.what());
  }
}
CANN_EXPORT int HcclCommInitRootInfoConfig(uint32_t size, const RootInfo* info, uint32_t rank, const void*, void** comm) {
  return HcclCommInitRootInfo(size, info, rank, comm);
}
CANN_EXPORT int HcclCommInitAll(uint32_t, int32_t*, void**) { return kUnsupported; }
CANN_EXPORT int HcclCommDestroy(void* comm) {
  delete static_cast<Communicator*>(comm);
  return kSuccess;
}
CANN_EXPORT int HcclGetCommName(void* comm, char* name) {
  constexpr size_t kRoom = 128;  // including the terminating NUL
  std::snprintf(name, kRoom, "%s", static_cast<Communicator*>(comm)->name.c_str());
  return kSuccess;
}
CANN_EXPORT int HcclGetCommAsyncError(void*, int* error) {
  *error = kSuccess;
  return kSuccess;
}
CANN_EXPORT const char* HcclGetErrorString(int code) {
  return code == kTimeout ? "timeout" : code == kSuccess ? "no error" : "error";
}
CANN_EXPORT int HcclSetConfig(int, int64_t) { return kSuccess; }
CANN_EXPORT int HcclCommResume(void*) { return kSuccess; }

CANN_EXPORT int HcclAllReduce(void* from, void* to, uint64_t count, int type, int op, void* comm, void*) {
  return collective(comm, "HcclAllReduce", [&](Communicator& c) {
    std::vector<Tensor> values{summable(wrap(from, count, type))};
    c10d::AllreduceOptions options;
    options.reduceOp = reduction(op);
    c.group->allreduce(values, options)->wait();
    wrap(to, count, type).copy_(values[0]);
  });
}

CANN_EXPORT int HcclReduce(void* from, void* to, uint64_t count, int type, int op, uint32_t root, void* comm, void* stream) {
  return collective(comm, "HcclReduce", [&](Communicator& c) {
    std::vector<Tensor> values{summable(wrap(from, count, type))};
    c10d::AllreduceOptions options;
    options.reduceOp = reduction(op);
    c.group->allreduce(values, options)->wait();
    if (c.rank == static_cast<int>(root)) wrap(to, count, type).copy_(values[0]);
  });
}

CANN_EXPORT int HcclAllGather(void* from, void* to, uint64_t count, int type, void* comm, void*) {
  return collective(comm, "HcclAllGather", [&](Communicator& c) {
    Tensor own = wrap(from, count, type).clone(), all = wrap(to, count * static_cast<uint64_t>(c.size), type);
    c.group->_allgather_base(all, own)->wait();
  });
}

// Each rank receives its chunk from every other rank and sums locally, in rank order rather than arrival order.
CANN_EXPORT int HcclReduceScatter(void* from, void* to, uint64_t count, int type, int op, void* comm, void*) {
  return collective(comm, "HcclReduceScatter", [&](Communicator& c) {
    Tensor all = summable(wrap(from, count * static_cast<uint64_t>(c.size), type)), parts = at::empty_like(all);
    exchange(c, all, parts, {}, {});
    auto stacked = parts.view({c.size, -1});
    auto sum = op == 0 ? stacked.sum(0) : op == 1 ? stacked.prod(0) : op == 2 ? stacked.amax(0) : stacked.amin(0);
    wrap(to, count, type).copy_(sum);
  });
}

CANN_EXPORT int HcclBroadcast(void* buffer, uint64_t count, int type, uint32_t root, void* comm, void*) {
  return collective(comm, "HcclBroadcast", [&](Communicator& c) {
    std::vector<Tensor> values{wrap(buffer, count, type)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    c.group->broadcast(values, options)->wait();
  });
}

CANN_EXPORT int HcclScatter(void* from, void* to, uint64_t count, int type, uint32_t root, void* comm, void*) {
  return collective(comm, "HcclScatter", [&](Communicator& c) {
    Tensor all = c.rank == static_cast<int>(root) ? wrap(from, count * static_cast<uint64_t>(c.size), type).clone()
                                                  : at::empty({static_cast<int64_t>(count) * c.size}, type_of(type));
    std::vector<Tensor> values{all};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    c.group->broadcast(values, options)->wait();
    wrap(to, count, type).copy_(all.view({c.size, -1})[c.rank]);
  });
}

CANN_EXPORT int HcclAlltoAll(const void* from, uint64_t count, int type, const void* to, uint64_t, int, void* comm, void*) {
  return collective(comm, "HcclAlltoAll", [&](Communicator& c) {
    auto all = count * static_cast<uint64_t>(c.size);
    exchange(c, wrap(from, all, type), wrap(to, all, type), {}, {});
  });
}

CANN_EXPORT int HcclAlltoAllV(const void* from, const void* sent, const void*, int type, const void* to, const void* received,
                              const void*, int, void* comm, void*) {
  return collective(comm, "HcclAlltoAllV", [&](Communicator& c) {
    auto out = counts(sent, c.size), in = counts(received, c.size);
    auto total = [](const std::vector<int64_t>& parts) {
      return static_cast<uint64_t>(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
    };
    exchange(c, wrap(from, total(out), type), wrap(to, total(in), type), out, in);
  });
}

CANN_EXPORT int HcclSend(void* buffer, uint64_t count, int type, uint32_t to, void* comm, void*) {
  return collective(comm, "HcclSend", [&](Communicator& c) { send(c, wrap(buffer, count, type), static_cast<int>(to)); });
}
CANN_EXPORT int HcclRecv(void* buffer, uint64_t count, int type, uint32_t from, void* comm, void*) {
  return collective(comm, "HcclRecv", [&](Communicator& c) { receive(c, wrap(buffer, count, type), static_cast<int>(from)); });
}

namespace {

struct Item {
  int kind;  // 0 send, 1 receive
  void* buffer;
  uint64_t count;
  int type;
  uint32_t peer;
};

}  // namespace
CANN_EXPORT int HcclBatchSendRecv(Item* items, uint32_t count, void* comm, void*) {
  return collective(comm, "HcclBatchSendRecv", [&](Communicator& c) {
    for (auto* item = items; item < items + count; ++item)
      if (item->kind == 0) send(c, wrap(item->buffer, item->count, item->type), static_cast<int>(item->peer));
    for (auto* item = items; item < items + count; ++item)
      if (item->kind == 1) receive(c, wrap(item->buffer, item->count, item->type), static_cast<int>(item->peer));
  });
}

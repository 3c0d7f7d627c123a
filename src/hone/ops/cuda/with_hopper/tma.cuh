// Copies by the Tensor Memory Accelerator, the barriers that they signal, and clusters of thread blocks.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace hone::ops::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void init_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ inline void wait_for(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::"r"(
          shared_address(barrier)),
      "r"(parity)
      : "memory");
}
// The phase ends when this many bytes have come, too.
__device__ inline void arrive_expecting(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// At the barrier of a thread block of the cluster. Not .release.cluster: that waits for a memory fence, half a microsecond.
__device__ inline void arrive_at_rank(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::
          "r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

__device__ inline void arrive_expecting_at_rank(uint64_t* barrier, uint32_t rank, int bytes) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [remote], %2;\n}\n" ::"r"(shared_address(barrier)),
      "r"(rank), "r"(bytes)
      : "memory");
}
// To the shared memory of a thread block of the cluster, whose barrier gets these 16 bytes.
__device__ inline void store_at_rank(void* to, uint32_t rank, int4 value, uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b32 remote, signal;\nmapa.shared::cluster.u32 remote, %0, %2;\nmapa.shared::cluster.u32 signal, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [remote], {%3, %4, %5, %6}, [signal];\n}\n" ::"r"(
          shared_address(to)),
      "r"(shared_address(barrier)), "r"(rank), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
      : "memory");
}

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// True for one thread of a converged warp, in the form that lets the compiler issue copies without a loop over threads.
__device__ inline bool is_elected() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(elected));
  return elected != 0;
}

__device__ inline void load_box(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
          shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// To the same place of both thread blocks of a cluster; each one's own barrier is signaled.
__device__ inline void load_box_for_both(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
      "[%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(static_cast<uint16_t>(3))
      : "memory");
}

// From shared memory, which the thread that stores must not overwrite before wait_for_stores(). What other threads wrote there
// needs publish_to_copies() by each of them, and a barrier.
__device__ inline void store_box(const void* from, const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(shared_address(from)), "r"(x), "r"(y)
               : "memory");
}
__device__ inline void publish_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all but the last `kPending` groups have read shared memory.
template <int kPending>
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace hone::ops::cuda

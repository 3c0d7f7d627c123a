// Warpgroup products on the tensor cores of Hopper: 64 rows of A by up to 256 rows of B, bfloat16 in shared memory, float32 sums
// in registers. A is row-major, or column-major.
#pragma once
#include <cstdint>

namespace hone::ops::cuda {

// Operand lists of 8 registers each. The two descriptors come first, and are therefore declared as read and written: operands are
// numbered, outputs before inputs.
#define HONE_REGS_0 "%2, %3, %4, %5, %6, %7, %8, %9"
#define HONE_REGS_1 HONE_REGS_0 ", %10, %11, %12, %13, %14, %15, %16, %17"
#define HONE_REGS_2 HONE_REGS_1 ", %18, %19, %20, %21, %22, %23, %24, %25"
#define HONE_REGS_3 HONE_REGS_2 ", %26, %27, %28, %29, %30, %31, %32, %33"
#define HONE_REGS_4 HONE_REGS_3 ", %34, %35, %36, %37, %38, %39, %40, %41"
#define HONE_REGS_5 HONE_REGS_4 ", %42, %43, %44, %45, %46, %47, %48, %49"
#define HONE_REGS_6 HONE_REGS_5 ", %50, %51, %52, %53, %54, %55, %56, %57"
#define HONE_REGS_7 HONE_REGS_6 ", %58, %59, %60, %61, %62, %63, %64, %65"
#define HONE_REGS_8 HONE_REGS_7 ", %66, %67, %68, %69, %70, %71, %72, %73"
#define HONE_REGS_9 HONE_REGS_8 ", %74, %75, %76, %77, %78, %79, %80, %81"
#define HONE_REGS_10 HONE_REGS_9 ", %82, %83, %84, %85, %86, %87, %88, %89"
#define HONE_REGS_11 HONE_REGS_10 ", %90, %91, %92, %93, %94, %95, %96, %97"
#define HONE_REGS_12 HONE_REGS_11 ", %98, %99, %100, %101, %102, %103, %104, %105"
#define HONE_REGS_13 HONE_REGS_12 ", %106, %107, %108, %109, %110, %111, %112, %113"
#define HONE_REGS_14 HONE_REGS_13 ", %114, %115, %116, %117, %118, %119, %120, %121"
#define HONE_REGS_15 HONE_REGS_14 ", %122, %123, %124, %125, %126, %127, %128, %129"
#define HONE_SUMS(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define HONE_SUMS_0 HONE_SUMS(0)
#define HONE_SUMS_1 HONE_SUMS_0, HONE_SUMS(8)
#define HONE_SUMS_2 HONE_SUMS_1, HONE_SUMS(16)
#define HONE_SUMS_3 HONE_SUMS_2, HONE_SUMS(24)
#define HONE_SUMS_4 HONE_SUMS_3, HONE_SUMS(32)
#define HONE_SUMS_5 HONE_SUMS_4, HONE_SUMS(40)
#define HONE_SUMS_6 HONE_SUMS_5, HONE_SUMS(48)
#define HONE_SUMS_7 HONE_SUMS_6, HONE_SUMS(56)
#define HONE_SUMS_8 HONE_SUMS_7, HONE_SUMS(64)
#define HONE_SUMS_9 HONE_SUMS_8, HONE_SUMS(72)
#define HONE_SUMS_10 HONE_SUMS_9, HONE_SUMS(80)
#define HONE_SUMS_11 HONE_SUMS_10, HONE_SUMS(88)
#define HONE_SUMS_12 HONE_SUMS_11, HONE_SUMS(96)
#define HONE_SUMS_13 HONE_SUMS_12, HONE_SUMS(104)
#define HONE_SUMS_14 HONE_SUMS_13, HONE_SUMS(112)
#define HONE_SUMS_15 HONE_SUMS_14, HONE_SUMS(120)
#define HONE_WGMMA(width, last)                                                                                                  \
  template <bool kColumnMajor>                                                                                                   \
  __device__ inline void wgmma(float(&d)[width / 2], uint64_t a, uint64_t b) {                                                   \
    if constexpr (kColumnMajor)                                                                                                  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #width "k16.f32.bf16.bf16 {" HONE_REGS_##last "}, %0, %1, 1, 1, 1, 1, 0;" \
                   : "+l"(a), "+l"(b), HONE_SUMS_##last);                                                                        \
    else                                                                                                                         \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #width "k16.f32.bf16.bf16 {" HONE_REGS_##last "}, %0, %1, 1, 1, 1, 0, 0;" \
                   : "+l"(a), "+l"(b), HONE_SUMS_##last);                                                                        \
  }
HONE_WGMMA(16, 0)
HONE_WGMMA(32, 1)
HONE_WGMMA(48, 2)
HONE_WGMMA(64, 3)
HONE_WGMMA(80, 4)
HONE_WGMMA(96, 5)
HONE_WGMMA(112, 6)
HONE_WGMMA(128, 7)
HONE_WGMMA(144, 8)
HONE_WGMMA(160, 9)
HONE_WGMMA(176, 10)
HONE_WGMMA(192, 11)
HONE_WGMMA(208, 12)
HONE_WGMMA(224, 13)
HONE_WGMMA(240, 14)
HONE_WGMMA(256, 15)

#undef HONE_REGS_0
#undef HONE_REGS_1
#undef HONE_REGS_2
#undef HONE_REGS_3
#undef HONE_REGS_4
#undef HONE_REGS_5
#undef HONE_REGS_6
#undef HONE_REGS_7
#undef HONE_REGS_8
#undef HONE_REGS_9
#undef HONE_REGS_10
#undef HONE_REGS_11
#undef HONE_REGS_12
#undef HONE_REGS_13
#undef HONE_REGS_14
#undef HONE_REGS_15
#undef HONE_SUMS
#undef HONE_SUMS_0
#undef HONE_SUMS_1
#undef HONE_SUMS_2
#undef HONE_SUMS_3
#undef HONE_SUMS_4
#undef HONE_SUMS_5
#undef HONE_SUMS_6
#undef HONE_SUMS_7
#undef HONE_SUMS_8
#undef HONE_SUMS_9
#undef HONE_SUMS_10
#undef HONE_SUMS_11
#undef HONE_SUMS_12
#undef HONE_SUMS_13
#undef HONE_SUMS_14
#undef HONE_SUMS_15
#undef HONE_WGMMA

// Tiles in shared memory have rows of 128 bytes, swizzled, and groups of eight rows in sequence.
constexpr int kSwizzleBytes = 128;
__device__ inline uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kGroupStride = 8 * kSwizzleBytes, kSwizzle128 = 1;
  return (address & 0x3FFFFu) >> 4 | uint64_t{1} << 16 | kGroupStride >> 4 << 32 | kSwizzle128 << 62;
}
// Waits for the 128 threads of a warpgroup.
__device__ inline void sync_warpgroup(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }
__device__ inline void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_for_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler does not move uses of the sums across this.
template <int kCount>
__device__ inline void keep(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

}  // namespace hone::ops::cuda

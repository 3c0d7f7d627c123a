// AMX instructions with memory operands, which the compiler's intrinsics lack.
#pragma once
#if defined(__x86_64__)
#include <cstdint>

#define HONE_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw")))
#define HONE_AMX_INLINE __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw"), always_inline)) inline

namespace hone::ops::cpu {

struct alignas(64) TileSetup {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

HONE_AMX_INLINE void set_up_tiles(const TileSetup& setup) { asm volatile("ldtilecfg %0" : : "m"(setup)); }
HONE_AMX_INLINE void release_tiles() { asm volatile("tilerelease"); }

template <int Tile>
HONE_AMX_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
template <int Tile>
HONE_AMX_INLINE void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(Tile), "r"(from), "r"(stride) : "memory");
}
template <int Tile>
HONE_AMX_INLINE void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(Tile), "r"(to), "r"(stride) : "memory");
}
// sums[m][n] += left[m] . right[n], of bfloat16 pairs
template <int Sums, int Left, int Right>
HONE_AMX_INLINE void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Left), "i"(Right));
}

}  // namespace hone::ops::cpu
#endif

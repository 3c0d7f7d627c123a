// The tiles of a grouped product, handed to the clusters of two thread blocks one by one: a warp of each cluster finds the next
// tile and writes it to the shared memory of both blocks.
#pragma once
#include <cstdint>

#include "hone/ops/cuda/with_hopper/tma.cuh"

namespace hone::ops::cuda {

constexpr int kRowStep = 16;

struct Tiling {
  const int64_t* counts;         // each expert's rows
  int experts, features;         // of the product
  int most_rows, tile_features;  // of a tile
};

struct alignas(16) Tile {
  int expert, first_row, rows, feature;  // expert: -1 after the last tile; feature: the first

  __device__ int width() const { return (rows + kRowStep - 1) / kRowStep * kRowStep; }
};

// By a whole warp, for ascending indices. An expert's rows are divided into equal tiles, rounded up to 16; those of the same
// features follow each other, since clusters that multiply them at the same time share the loaded weights in the L2 cache.
class TileFinder {
 public:
  __device__ explicit TileFinder(const Tiling& tiling) : tiling_(tiling) {}

  __device__ Tile find(int index) {
    while (index >= tiles_before_) {
      if (first_ + 32 >= tiling_.experts) return {-1, 0, 0, 0};
      load();
    }
    const int lane = __popc(__ballot_sync(kAll, tile_end_ <= index));
    const int rows = __shfl_sync(kAll, rows_, lane), first_row = __shfl_sync(kAll, row_end_, lane) - rows;
    const int parts = parts_of(rows), at = index - (__shfl_sync(kAll, tile_end_, lane) - parts * columns());
    const int width = ((rows + parts - 1) / parts + kRowStep - 1) / kRowStep * kRowStep, first = at % parts * width;
    return {first_ + lane, first_row + first, min(width, rows - first), at / parts * tiling_.tile_features};
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;

  __device__ int parts_of(int rows) const { return (rows + tiling_.most_rows - 1) / tiling_.most_rows; }
  __device__ int columns() const { return (tiling_.features + tiling_.tile_features - 1) / tiling_.tile_features; }

  // The next 32 experts, one per lane.
  __device__ void load() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    first_ += 32;
    rows_ = first_ + lane < tiling_.experts ? static_cast<int>(tiling_.counts[first_ + lane]) : 0;
    row_end_ = rows_, tile_end_ = parts_of(rows_) * columns();
    for (int offset = 1; offset < 32; offset *= 2) {
      const int rows = __shfl_up_sync(kAll, row_end_, offset), tiles = __shfl_up_sync(kAll, tile_end_, offset);
      if (lane >= offset) row_end_ += rows, tile_end_ += tiles;
    }
    row_end_ += rows_before_, tile_end_ += tiles_before_;
    rows_before_ = __shfl_sync(kAll, row_end_, 31), tiles_before_ = __shfl_sync(kAll, tile_end_, 31);
  }

  Tiling tiling_;
  int first_ = -32, rows_ = 0, row_end_ = 0, tile_end_ = 0;  // a lane's expert; sums up to and including it
  int rows_before_ = 0, tiles_before_ = 0;                   // up to the last lane's
};

// Holds one tile: the next one is found while this one is multiplied.
struct TileQueue {
  Tile tile;
  uint64_t full, empty;  // of `empty` only the first block's is used

  __device__ void init(int readers) { init_barrier(&full, 1), init_barrier(&empty, 2 * readers); }

  // By a warp of the first block. `taken`: how many tiles clusters have taken after their first one; null: every cluster takes
  // each gridDim.x / 2-th.
  __device__ void fill(const Tiling& tiling, int* taken) {
    TileFinder finder(tiling);
    const int clusters = static_cast<int>(gridDim.x / 2);
    uint32_t parity = 1;
    for (int index = static_cast<int>(blockIdx.x / 2);; parity ^= 1) {
      wait_for(&empty, parity);
      const Tile found = finder.find(index);
      if (threadIdx.x % 32 < 2) send(found, threadIdx.x % 32);
      if (found.expert < 0) return;
      if (taken && threadIdx.x % 32 == 0) index = clusters + atomicAdd(taken, 1);
      index = taken ? __shfl_sync(0xffffffffu, index, 0) : index + clusters;
    }
  }

 private:
  __device__ void send(const Tile& found, uint32_t rank) {
    arrive_expecting_at_rank(&full, rank, sizeof(Tile));
    store_at_rank(&tile, rank, make_int4(found.expert, found.first_row, found.rows, found.feature), &full);
  }
};

// By whole warps, each of which is a reader.
class TileReader {
 public:
  __device__ explicit TileReader(TileQueue& queue) : queue_(queue) {}

  __device__ bool take(Tile& tile) {
    wait_for(&queue_.full, parity_);
    parity_ ^= 1;
    tile = queue_.tile;
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at_rank(&queue_.empty, 0);
    return tile.expert >= 0;
  }

 private:
  TileQueue& queue_;
  uint32_t parity_ = 0;
};

}  // namespace hone::ops::cuda

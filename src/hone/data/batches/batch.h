// The trainer's input: samples concatenated into one sequence of tokens, without padding.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/base/error.h"
#include "hone/data/batches/payload.h"
#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"
#include "hone/ops/patch_grid.h"

namespace hone::data {

// The images of a batch, in the order of their placeholders.
struct BatchImages {
  Tensor patches_pr;                  // float32 [patches, row size]; undefined: there are none
  std::vector<ops::PatchGrid> grids;  // of each picture
  std::vector<int64_t> tokens;        // of each picture
  Tensor rows_n;                      // int64: the positions in tokens_t that they fill
};

// The recordings of a batch, in the order of their placeholders.
struct BatchAudio {
  Tensor frames_fm;              // float32 [frames, mel bins]; undefined: there are none
  std::vector<int64_t> lengths;  // of each recording, in frames
  std::vector<int64_t> tokens;   // of each recording
  Tensor rows_n;                 // int64: the positions in tokens_t that they fill
};

struct Batch {
  Tensor tokens_t, positions_t;  // int64 [T]; positions [3, T] (time, height, width) where there are pictures
  BatchImages images;
  BatchAudio audio;
  Tensor targets_t;          // int64 [T]: the token that position t must predict (already shifted inside each sample), or kIgnore
  Tensor weights_t;          // float [T], undefined when every target weighs 1
  ops::CuSeqlens segments;   // attention boundaries
  Tensor offsets_s;          // the same on the device, if they are there already; else undefined
  int64_t target_count = 0;  // positions with a target
  int64_t sample_count = 0;
  std::vector<int64_t> rows;                            // source rows in this batch, for reports
  std::vector<std::string> channels;                    // of each segment; "" where its row names none
  std::shared_ptr<const Payload> payload;               // of the training method; null: tokens and targets are all it needs
  Tensor routed_experts_tlk;                            // int64 [T, layers with experts, k]: router replay; undefined: none
  std::vector<std::pair<std::string, double>> metrics;  // metrics of how the batch was made, logged with its loss
  bool pinned = true;                                   // copied to an accelerator through page-locked memory

  Batch to(at::Device device) const;
};

template <class Own>
const Own& payload_of(const Batch& batch) {
  HONE_CHECK(batch.payload, "a batch without the payload of its method");
  return payload_as<Own>(*batch.payload);
}

}  // namespace hone::data

// Collator: concatenates samples, shifts the targets and counts the positions.
#pragma once
#include <span>

#include "hone/data/batches/batch.h"
#include "hone/data/sample.h"

namespace hone::data {

// Attention between the samples of one pack.
enum class PackMask {
  separate,      // each is its own sequence
  cross_sample,  // one sequence of attention and shift, positions restart (LLaMA-Factory's plain packing)
  one_sequence,  // one sequence in every respect (blocks of pre-training text)
};

using SamplePack = std::vector<Sample>;

// Concatenates `packs` into one row of tokens.
Batch collate(std::span<const SamplePack> packs, PackMask joint);

}  // namespace hone::data

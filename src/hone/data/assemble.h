// Samples to the trainer's batch: laid end to end, targets shifted, positions counted.
#pragma once
#include <span>

#include "hone/data/batch.h"
#include "hone/data/sample.h"

namespace hone::data {

// How the samples of one pack see each other.
enum class Joint {
  separate,   // each is its own sequence
  attending,  // one sequence of attention and shift, positions restart (LLaMA-Factory's plain packing)
  one_text,   // one sequence in every respect (blocks of pre-training text)
};

using SamplePack = std::vector<Sample>;

// `packs` end to end in one row of tokens.
Batch assemble(std::span<const SamplePack> packs, Joint joint);

}  // namespace hone::data

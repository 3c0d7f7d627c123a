// Audio in a batch: rows of spectrograms. Their placeholders take positions like text.
#pragma once
#include <functional>

#include "hone/data/batches/batch.h"
#include "hone/data/batches/collator.h"

namespace hone::data {

bool has_sounds(std::span<const SamplePack> packs);

// `failed` receives every recording that cannot be decoded; its rows stay zero. `is_cancelled` is called before each; true leaves
// the others undecoded.
BatchAudio decode_sounds(std::vector<SamplePack>& packs, const std::function<void(Sample&, const std::string&)>& failed,
                         const std::function<bool()>& is_cancelled);
// A recording that cannot be decoded becomes zeros, its sample is masked, and a warning names it.
BatchAudio load_sounds(std::vector<SamplePack>& packs);

}  // namespace hone::data

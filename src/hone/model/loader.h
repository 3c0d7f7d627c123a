// Fills a decoder from a Hugging Face folder or with random numbers.
#pragma once
#include <filesystem>

#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::model {

// On the CPU, a weight of the requested dtype stays in the mapped file. Throws UserError(bad_checkpoint) naming what is missing
// or misshapen.
Decoder load_decoder(const std::filesystem::path& folder, const LoadOptions& options);
Decoder random_decoder(const DecoderConfig& config, uint64_t seed, const LoadOptions& options);

}  // namespace hone::model

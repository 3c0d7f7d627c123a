// Rows with one completion that is desirable or not (KTO). The KL term is estimated from completions of other prompts: each row's
// prompt is repeated with the completion of the previous row.
#pragma once
#include "hone/data/batches/collator.h"
#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {

struct KtoConfig {
  bool with_kl_pairs = true;   // whether rows come with another row's completion at all
  int64_t block = 0;           // this many rows rotate their completions; 0: those of an optimizer step
  bool in_file_order = false;  // LLaMA-Factory's rows are neighbors in the file, others' in the order of training; of packs,
                               // which keep their rows in every epoch, in one shuffled order
};

// The row that gives its completion to the row at `index` of `total`: the one before it, and the last of the block for the first.
int64_t kl_partner(int64_t index, int64_t total, int64_t block);

// The row's own sample, with label 1 if desirable and 0 otherwise, and its prompt with the completion of `partner`, unlabeled.
// There is no second sample if it would be too long or `partner` is null.
Result<SamplePack> encode_kto_row(const Encoder& encoder, const Conversation& row, const Conversation* partner);

// Samples as stored in a batch: all own completions, then all KL pairs.
std::vector<SamplePack> kl_pairs_last(std::span<const SamplePack> packs);

}  // namespace hone::data

// Rows of one answer that is good or bad (KTO). The KL term is estimated from answers to other prompts: each row's prompt
// comes once more with the answer of the row before it.
#pragma once
#include "hone/data/batches/collator.h"
#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {

struct KtoConfig {
  bool with_kl_pairs = true;   // whether rows come with another row's answer at all
  int64_t block = 0;           // so many rows pass their answers round among themselves; 0: those of an update
  bool in_file_order = false;  // LLaMA-Factory's rows are neighbors in the file, others' in the order of training
};

// Who gives the row at `place` of `total` its answer: the one before it, and the last of the block to the first.
int64_t kl_partner(int64_t place, int64_t total, int64_t block);

// The row's own sample, whose grade is 1 for a good answer and 0 for a bad one, and its prompt with the answer of `partner`,
// which has no grade. There is no second one where it would be too long, or `partner` is null.
Result<SamplePack> encode_kto_row(const Encoder& encoder, const Conversation& row, const Conversation* partner);

// Rows as a batch holds them: all answers of their own, then all KL pairs.
std::vector<SamplePack> kl_pairs_last(std::span<const SamplePack> rows);

}  // namespace hone::data

// Rows as token ids on disk, so that a large dataset is prepared once: `export --to_cached_dataset`, LLaMA-Factory's
// tokenized_path.
#pragma once
#include <filesystem>

#include "hone/base/thread_pool.h"
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/row_report.h"

namespace hone::data {

// What rows are prepared for, by ms-swift's words: train, rlhf (a row is its chosen and its rejected conversation), kto (with its
// label).
enum class TemplateMode { train, rlhf, kto };

// Encodes every row on the threads of `pool` and writes a folder that appears whole. Rows that cannot be used are reported and
// left out.
void write_cached_dataset(const std::filesystem::path& folder, const ConversationSource& rows, const Encoder& encoder,
                          RowReport& report, ThreadPool& pool, TemplateMode purpose = TemplateMode::train);

bool is_cached_dataset(const std::filesystem::path& folder);

// Conversations without messages, whose tokens are there already. Throws UserError(bad_data) for a folder that is no such thing
// or that another tokenizer made, UserError(usage) for rows that were prepared for something else.
std::shared_ptr<ConversationSource> open_cached_dataset(const std::filesystem::path& folder, const text::Tokenizer& tokenizer,
                                                        TemplateMode purpose = TemplateMode::train);

}  // namespace hone::data

// Tokenized rows on disk, so that a large dataset is prepared once:
// `export --to_cached_dataset`, LLaMA-Factory's tokenized_path.
#pragma once
#include <filesystem>

#include "hone/base/thread_pool.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/row_report.h"

namespace hone::data {

// Encodes every row on the threads of `pool` and writes a folder atomically. Rows that cannot be used are reported and
// skipped.
void write_cached_dataset(const std::filesystem::path& folder, const ConversationSource& rows, const Encoder& encoder,
                          RowReport& report, ThreadPool& pool, TemplateMode purpose = TemplateMode::train);

bool is_cached_dataset(const std::filesystem::path& folder);

// Conversations without messages, already tokenized. Throws UserError(bad_data) for an invalid folder or another tokenizer,
// UserError(usage) for rows prepared for another purpose.
std::shared_ptr<ConversationSource> open_cached_dataset(const std::filesystem::path& folder, const text::Tokenizer& tokenizer,
                                                        TemplateMode purpose = TemplateMode::train);

}  // namespace hone::data

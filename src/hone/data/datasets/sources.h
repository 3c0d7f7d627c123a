// Combines sources and streams: rows through a format, a selection, concatenation, a shuffle buffer.
#pragma once
#include <memory>
#include <vector>

#include "hone/data/datasets/mixing.h"
#include "hone/data/datasets/source.h"
#include "hone/data/formats/format.h"
#include "hone/data/readers/row_reader.h"

namespace hone::data {

using SourcePtr = std::shared_ptr<ConversationSource>;
using StreamPtr = std::unique_ptr<ConversationStream>;

// `dataset` becomes every row's origin.dataset.
SourcePtr format_source(std::unique_ptr<RowReader> rows, std::shared_ptr<const RowFormat> format, std::string dataset);
SourcePtr select_source(SourcePtr base, Selection selection);
SourcePtr concat_sources(std::vector<SourcePtr> parts);
// Reads up to `count` rows off a stream and keeps them in memory.
SourcePtr hold_source(ConversationStream& stream, int64_t count);

StreamPtr format_stream(std::unique_ptr<RowStream> rows, std::shared_ptr<const RowFormat> format, std::string dataset);
StreamPtr limit_stream(StreamPtr base, int64_t limit);
StreamPtr concat_streams(std::vector<StreamPtr> parts);
StreamPtr interleave_streams(std::vector<StreamPtr> parts, std::vector<double> probabilities, uint64_t seed,
                             StoppingStrategy stopping);
// Holds `buffer` rows and returns half of them in random order whenever it is full.
StreamPtr shuffle_stream(StreamPtr base, int64_t buffer, uint64_t seed);

}  // namespace hone::data

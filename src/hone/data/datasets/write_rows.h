// Writes conversations as rows: the validation split as a file that later commands can read, rows with media of a cached dataset.
#pragma once
#include <filesystem>

#include "hone/data/datasets/source.h"

namespace hone::data {

// A row in ms-swift's canonical columns: messages, rejected_messages, tools, images … and the row's other columns.
Json row_of(const Conversation& conversation);
// The conversation that such a row was made of, without its origin.
Conversation conversation_of(const Json& row);

// A row's images, videos and audios as ms-swift writes them in results and gives them to rewards: an image is {"bytes", "path"},
// a video is a source or a list of frames. Only those that the row has.
Json media_columns(const Conversation& conversation);

// One row per line, written atomically. Unreadable rows are skipped: the user of the source reports them.
void write_rows(const std::filesystem::path& path, const ConversationSource& source);

}  // namespace hone::data

// Conversations back to rows: the validation split as a file that any later command can read.
#pragma once
#include <filesystem>

#include "hone/data/datasets/source.h"

namespace hone::data {

// A row in ms-swift's canonical columns: messages, rejected_messages, tools, images … and what else the row held.
Json row_of(const Conversation& conversation);

// One row a line, written completely or not at all. Rows that cannot be read are left out: the source's user reports them.
void write_rows(const std::filesystem::path& path, const ConversationSource& source);

}  // namespace hone::data

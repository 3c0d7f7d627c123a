// Tags such as <image> in a row's text.
#pragma once
#include "hone/data/conversation.h"

namespace hone::data {

bool spells_media_tag(const Conversation& conversation);

// Names the first row of each kind. Tags that have a medium are markers by now.
void warn_of_surplus_tags(const Conversation& marked);

}  // namespace hone::data

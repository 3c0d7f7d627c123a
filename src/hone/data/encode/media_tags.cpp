#include "hone/data/encode/media_tags.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "hone/base/log.h"

namespace hone::data {
namespace {

bool spells(const Conversation& conversation, const std::string& tag) {
  auto holds = [&](const Message& message) { return message.content.find(tag) != std::string::npos; };
  return std::ranges::any_of(conversation.messages, holds) || std::ranges::any_of(conversation.rejected, holds);
}

}  // namespace

bool spells_media_tag(const Conversation& conversation) {
  const auto& tags = conversation.tags;
  return spells(conversation, tags.image) || spells(conversation, tags.video) || spells(conversation, tags.audio);
}

void warn_of_surplus_tags(const Conversation& marked) {
  static std::array<std::atomic_flag, 3> has_warned;
  const std::array kinds{std::pair{"image", &marked.tags.image}, std::pair{"video", &marked.tags.video},
                         std::pair{"audio", &marked.tags.audio}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [kind, tag] = kinds[i];
    if (spells(marked, *tag) && !has_warned[i].test_and_set())
      log::warning(
          "{0}: more tags {1} than {2}s: those left over stay text; {2}s are read from the column \"{2}s\" (`columns` renames "
          "another one)",
          marked.origin.str(), *tag, kind);
  }
}

}  // namespace hone::data

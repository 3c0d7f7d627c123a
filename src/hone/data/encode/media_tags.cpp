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

constexpr std::string_view kBefore = "<img>", kBehind = "</img>";

// Calls found(begin, end) for the text of each <img>…</img>, which is at least one character of one line.
template <class Found>
void for_named_images(std::string_view text, Found found) {
  for (size_t line_begin = 0; line_begin < text.size();) {
    const size_t line_end = std::min(text.find('\n', line_begin), text.size());
    const auto before_end = text.substr(0, line_end);
    for (size_t at = line_begin; (at = before_end.find(kBefore, at)) != std::string_view::npos;) {
      const size_t begin = at + kBefore.size(), end = before_end.find(kBehind, begin + 1);
      if (end == std::string_view::npos) break;
      found(begin, end);
      at = end + kBehind.size();
    }
    line_begin = line_end + 1;
  }
}

std::vector<std::string> named_in(const std::vector<Message>& messages) {
  std::vector<std::string> names;
  for (const auto& message : messages)
    for_named_images(message.content,
                     [&](size_t begin, size_t end) { names.push_back(message.content.substr(begin, end - begin)); });
  return names;
}

void put_tags(std::vector<Message>& messages, const std::string& tag) {
  for (auto& message : messages) {
    std::string text;
    size_t copied = 0;
    for_named_images(message.content, [&](size_t begin, size_t end) {
      text.append(message.content, copied, begin - kBefore.size() - copied).append(tag);
      copied = end + kBehind.size();
    });
    if (copied > 0) message.content = text.append(message.content, copied);
  }
}

}  // namespace

Result<std::vector<std::string>> named_images(const Conversation& conversation) {
  if (!conversation.images.empty() || conversation.origin.file.empty()) return std::vector<std::string>();
  auto names = named_in(conversation.messages);
  if (!conversation.rejected.empty() && named_in(conversation.rejected) != names)
    return error("<img>…</img> names other images in the rejected response; give them in the column \"images\"");
  return names;
}

void put_image_tags(Conversation& conversation) {
  if (!conversation.images.empty() || conversation.origin.file.empty()) return;
  put_tags(conversation.messages, conversation.tags.image);
  put_tags(conversation.rejected, conversation.tags.image);
}

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
          "{0}more tags {1} than {2}s: those left over stay text; {2}s are read from the column \"{2}s\" (`columns` renames "
          "another one)",
          marked.origin.file.empty() ? "" : marked.origin.str() + ": ", *tag, kind);
  }
}

void refuse_spelled(const char* kind) {
  throw MediaError(fmt::format("a text spells the placeholder of an {0}; remove it, or write <{0}> and give the {0}", kind));
}

void require_placed(size_t placed, size_t all, const char* kind) {
  if (placed < all)
    throw MediaError(fmt::format("{} of {} {}s have no position in the tokens; raise max_length, or check the tags <{}>",
                                 all - placed, all, kind, kind));
}

}  // namespace hone::data

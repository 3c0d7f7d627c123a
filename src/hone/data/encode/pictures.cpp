#include "hone/data/encode/pictures.h"

#include <charconv>

#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/template_tables.h"

namespace hone::data {
namespace {

constexpr std::string_view kMarkOpen = "\uFDD2", kMarkClose = "\uFDD3", kReplacement = "\uFFFD";

size_t count_tags(const std::vector<Message>& messages, const std::string& tag) {
  size_t count = 0;
  for (const auto& message : messages)
    for (size_t at = message.content.find(tag); at != std::string::npos; at = message.content.find(tag, at + tag.size())) ++count;
  return count;
}

void check_tags(std::vector<Message>& messages, size_t pictures, TagRule rule, const std::string& tag) {
  const size_t tags = count_tags(messages, tag);
  if (rule == TagRule::must_match && tags != pictures)
    throw text::FormatError(fmt::format("{} tags <image> for {} images; expected as many", tags, pictures));
  if (tags >= pictures || messages.empty()) return;
  const size_t first = messages[0].role == "system" && messages.size() > 1 ? 1 : 0;
  std::string missing;
  for (size_t i = tags; i < pictures; ++i) missing += tag;
  messages[first].content = missing + messages[first].content;
}

}  // namespace

Result<std::vector<Picture>> plan_pictures(const std::vector<std::string>& sources,
                                           const std::shared_ptr<const PictureConfig>& config) {
  std::vector<Picture> pictures;
  for (const auto& source : sources) {
    auto failed = [&](const std::string& why) { return error("image {}: {}", media::describe_source(source), why); };
    auto medium = media::Medium::open(source, config->sources);
    if (!medium) return failed(medium.error());
    auto header = media::read_image_header(medium->bytes());
    if (!header) return failed(header.error());
    auto plan = media::plan_image(header->size, config->processor);
    if (!plan) return failed(plan.error());
    pictures.push_back({source, std::move(*plan), config, 0});
  }
  return pictures;
}

std::vector<Message> mark_pictures(std::vector<Message> messages, const std::vector<Picture>& pictures, TagRule rule,
                                   const std::string& tag) {
  check_tags(messages, pictures.size(), rule, tag);
  size_t next = 0;
  for (auto& message : messages) {
    auto& text = message.content;
    text = without_picture_marks(std::move(text));
    for (size_t at = text.find(tag); at != std::string::npos && next < pictures.size(); at = text.find(tag, at)) {
      const auto& picture = pictures[next++];
      const auto mark = picture_mark(picture.plan.tokens) + picture.config->text_behind;
      text.replace(at, tag.size(), mark);
      at += mark.size();
    }
  }
  return messages;
}

std::string picture_mark(int64_t tokens) { return fmt::format("{}{}{}", kMarkOpen, tokens, kMarkClose); }

bool has_mark(std::string_view text) { return text.find(kMarkOpen) != std::string_view::npos; }

std::string without_picture_marks(std::string text) {
  if (!has_mark(text)) return text;
  return text::replace_all(std::move(text), std::string(kMarkOpen), std::string(kReplacement));
}

std::vector<MarkedPiece> split_at_marks(std::string_view text) {
  std::vector<MarkedPiece> pieces;
  while (true) {
    const size_t open = text.find(kMarkOpen), close = text.find(kMarkClose, open == text.npos ? text.size() : open);
    MarkedPiece piece{text.substr(0, open)};
    if (close == text.npos) return pieces.push_back(piece), pieces;
    const auto digits = text.substr(open + kMarkOpen.size(), close - open - kMarkOpen.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), piece.placeholders);
    pieces.push_back(piece);
    text.remove_prefix(close + kMarkClose.size());
  }
}

std::string describe(const Picture& picture) {
  const auto& plan = picture.plan;
  const auto& seen = plan.steps.back().to;
  const auto tiles = plan.frames > 1 ? fmt::format(" in {} tiles", plan.frames) : "";
  return fmt::format("image {}: {} x {} pixels, read as {} x {}{}, {} tokens", media::describe_source(picture.source),
                     plan.source.width, plan.source.height, seen.width, seen.height, tiles, plan.tokens);
}

Result<std::vector<float>> patch_rows(const Picture& picture) {
  auto failed = [&](const std::string& why) { return error("image {}: {}", media::describe_source(picture.source), why); };
  auto medium = media::Medium::open(picture.source, picture.config->sources);
  if (!medium) return failed(medium.error());
  auto image = media::decode_image(medium->bytes());
  if (!image) return failed(image.error());
  if (image->size != picture.plan.source) return failed("it was replaced while the run went on");
  const auto& processor = picture.config->processor;
  std::vector<float> rows(static_cast<size_t>(picture.plan.patches() * processor.row_size()));
  media::fill_patch_rows(std::move(*image), picture.plan, processor, rows);
  return rows;
}

}  // namespace hone::data

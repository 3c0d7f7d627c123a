#include "hone/data/datasets/write_rows.h"

#include <fstream>

namespace hone::data {
namespace {

Json messages_of(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const auto& message : messages) {
    Json item{{"role", message.role}, {"content", message.content}};
    if (message.extra.is_object())
      for (const auto& [key, value] : message.extra.items()) item[key] = value;
    if (message.loss) item["loss"] = *message.loss;
    if (message.loss_scale) item["loss_scale"] = *message.loss_scale;
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

Json row_of(const Conversation& conversation) {
  Json row{{"messages", messages_of(conversation.messages)}};
  if (!conversation.rejected.empty()) row["rejected_messages"] = messages_of(conversation.rejected);
  if (!conversation.tools.empty()) row["tools"] = conversation.tools;
  if (conversation.label) row["label"] = *conversation.label;
  if (!conversation.images.empty()) row["images"] = conversation.images;
  if (!conversation.videos.empty()) row["videos"] = conversation.videos;
  if (!conversation.audios.empty()) row["audios"] = conversation.audios;
  if (conversation.extra.is_object())
    for (const auto& [key, value] : conversation.extra.items()) row[key] = value;
  return row;
}

void write_rows(const std::filesystem::path& path, const ConversationSource& source) {
  auto staged = path;
  staged += ".partial";
  std::ofstream file(staged, std::ios::binary);
  for (int64_t i = 0; i < source.size() && file; ++i)
    if (auto conversation = source.at(i))
      file << row_of(*conversation).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) {
    std::error_code ignored;
    std::filesystem::remove(staged, ignored);
    throw UserError(ExitCode::out_of_space, fmt::format("{}: cannot be written", path.string()),
                    "free some space, or name another `output_dir`");
  }
  std::filesystem::rename(staged, path);
}

}  // namespace hone::data

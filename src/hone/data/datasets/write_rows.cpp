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

// Takes a member out of a row; null if absent.
Json taken(Json& row, const char* name) {
  if (!row.contains(name)) return nullptr;
  Json value = std::move(row[name]);
  row.erase(name);
  return value;
}

std::vector<Message> messages_in(const Json& list) {
  std::vector<Message> messages;
  if (!list.is_array()) return messages;
  for (auto item : list) {
    Message message{taken(item, "role").get<std::string>(), taken(item, "content").get<std::string>(), {}, {}, nullptr};
    if (const Json loss = taken(item, "loss"); loss.is_boolean()) message.loss = loss.get<bool>();
    if (const Json scale = taken(item, "loss_scale"); scale.is_number()) message.loss_scale = scale.get<double>();
    if (!item.empty()) message.extra = std::move(item);
    messages.push_back(std::move(message));
  }
  return messages;
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
  // rejected_messages would otherwise be read without tools.
  if (row.contains("rejected_messages") && row.contains("tools")) row["rejected_tools"] = row["tools"];
  if (conversation.extra.is_object())
    for (const auto& [key, value] : conversation.extra.items()) row[key] = value;
  return row;
}

Conversation conversation_of(const Json& row) {
  Json left = row;
  Conversation conversation;
  conversation.messages = messages_in(taken(left, "messages"));
  conversation.rejected = messages_in(taken(left, "rejected_messages"));
  if (const Json tools = taken(left, "tools"); tools.is_string()) conversation.tools = tools.get<std::string>();
  if (const Json label = taken(left, "label"); label.is_boolean()) conversation.label = label.get<bool>();
  const std::pair<const char*, std::vector<std::string>*> media[] = {
      {"images", &conversation.images}, {"videos", &conversation.videos}, {"audios", &conversation.audios}};
  for (const auto& [column, sources] : media)
    if (const Json list = taken(left, column); list.is_array()) *sources = list.get<std::vector<std::string>>();
  if (!left.empty()) conversation.extra = std::move(left);
  return conversation;
}

Json media_columns(const Conversation& conversation) {
  Json columns = Json::object();
  for (const auto& image : conversation.images) columns["images"].push_back({{"bytes", nullptr}, {"path", image}});
  for (const auto& video : conversation.videos)  // a list of frames was one text
    if (const auto frames = parse_json(video); video.starts_with('[') && frames)
      columns["videos"].push_back(*frames);
    else
      columns["videos"].push_back(video);
  if (!conversation.audios.empty()) columns["audios"] = conversation.audios;
  return columns;
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

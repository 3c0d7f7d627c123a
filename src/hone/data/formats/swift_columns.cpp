#include "hone/data/formats/swift_columns.h"

#include <algorithm>

namespace hone::data {

bool has_column(const std::vector<std::string>& columns, const char* name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

SwiftRowKind kind_of(const SwiftFormatOptions& options, const std::vector<std::string>& columns) {
  if (options.messages_only || has_column(columns, "messages") || has_column(columns, "conversation") ||
      has_column(columns, "conversations"))
    return SwiftRowKind::messages;
  return has_column(columns, "instruction") && has_column(columns, "input") ? SwiftRowKind::alpaca : SwiftRowKind::response;
}

std::map<std::string, std::string> automatic_columns(SwiftRowKind kind, const std::string& system_role) {
  std::map<std::string, std::string> map;
  auto add = [&](std::initializer_list<const char*> sources, const char* target) {
    for (auto source : sources) map[source] = target;
  };
  add({"images", "image"}, "images");
  add({"videos", "video"}, "videos");
  add({"audios", "audio"}, "audios");
  add({"system", "system_prompt"}, "system");
  if (kind == SwiftRowKind::messages) {
    add({"messages", "conversation", "conversations"}, "messages");
    map[system_role] = "system";
    return map;
  }
  // Alpaca's instruction and input would both map to "query", so they keep their names until they are joined.
  add({"query", "prompt", "input", "instruction", "question", "problem"}, "query");
  add({"response", "answer", "output", "targets", "target", "answer_key", "answers", "solution", "text", "completion", "content"},
      "response");
  return map;
}

}  // namespace hone::data

// Helpers shared by all formats: taking columns out of a row, media lists, and checks of a finished conversation.
#pragma once
#include <optional>
#include <string>

#include "hone/data/formats/format.h"
#include "hone/data/row_report.h"

namespace hone::data {

// An error without its location; the format adds the row's origin.
struct RowIssue {
  RowProblem problem;
  std::string details;
};
template <class... Args>
RowIssue row_issue(RowProblem problem, fmt::format_string<Args...> format, Args&&... args) {
  return {problem, fmt::format(format, std::forward<Args>(args)...)};
}
using RowCheck = std::optional<RowIssue>;  // nullopt: fine

// Removes the column and returns its value; null if absent.
Json take_column(Json& fields, const std::string& name);
bool has_value(const Json& fields, const std::string& name);
std::string_view type_word(const Json& value);  // "a string", "a list" …

// A path, a list of paths, or {"path": …} objects; a list of frames stays together as JSON text.
RowCheck read_media(const Json& value, std::string_view column, std::vector<std::string>& out);
// A content part of this kind ("image") names no source, and there is no column of such media.
RowIssue part_without_source(const std::string& kind);
// The columns that give a rejected conversation media of its own, and what they replace.
struct RejectedMedia {
  const char *kind, *column;
  std::vector<std::string> Conversation::*media;
};
constexpr RejectedMedia kRejectedMedia[] = {{"image", "rejected_images", &Conversation::images},
                                            {"video", "rejected_videos", &Conversation::videos},
                                            {"audio", "rejected_audios", &Conversation::audios}};
bool has_rejected_media(const Json& columns);
// Such media, or rejected_tools.
bool has_rejected_columns(const Json& columns);
// Gives `rejected`, the other half of `row`, the media, objects and tools that such columns name.
RowCheck read_rejected_columns(const Conversation& row, Conversation& rejected);
// JSON text of a list; lists and objects are written as Python writes them.
RowCheck read_tools(const Json& value, std::string& out, std::string_view column = "tools");
// true, false, 0, 1, "true", "false" (CSV).
std::optional<bool> read_label(const Json& value);

// Known roles in an order that a template can render: system first, tool results after calls, a response at the end.
RowCheck check_messages(const std::vector<Message>& messages, const RowRequirements& demands);
RowCheck check_preference(const Conversation& conversation);
// Pre-training: everything becomes one text.
void make_plain_text(Conversation& conversation);

}  // namespace hone::data

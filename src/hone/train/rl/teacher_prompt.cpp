#include "hone/train/rl/teacher_prompt.h"

#include <algorithm>

#include "hone/data/formats/checks.h"
#include "hone/data/row_report.h"

namespace hone::train::rl {

namespace {

bool has_own_text(const data::Conversation& row) {
  return row.extra.is_object() && row.extra.contains("teacher_prompt") && row.extra["teacher_prompt"].is_string() &&
         !row.extra["teacher_prompt"].get_ref<const std::string&>().empty();
}

// An empty list shows the teacher none.
bool has_own_images(const data::Conversation& row) {
  return row.extra.is_object() && !row.extra.value("teacher_images", Json()).is_null();
}

}  // namespace

bool has_teacher_prompt(const data::Conversation& row) { return has_own_text(row) || has_own_images(row); }

Result<data::RolloutPrompt> encode_teacher_prompt(const data::Encoder& encoder, data::Conversation row) {
  const auto last =
      std::find_if(row.messages.rbegin(), row.messages.rend(), [](const auto& each) { return each.role == "user"; });
  if (has_own_text(row) && last == row.messages.rend())
    return data::row_error(data::RowProblem::order, row.origin.str(),
                           "the row names a teacher_prompt, which replaces the last user message, and it has none");
  if (has_own_text(row)) last->content = row.extra.at("teacher_prompt").get<std::string>();
  if (has_own_images(row)) {
    row.images.clear();
    if (const auto bad = data::read_media(row.extra.at("teacher_images"), "teacher_images", row.images))
      return data::row_error(bad->problem, row.origin.str(), bad->details);
  }
  data::RolloutPrompt prompt;
  auto ids = encoder.encode_prompt(row, &prompt.pictures, &prompt.sounds);
  if (!ids) return Error{ids.error()};
  prompt.ids = std::move(*ids);
  return prompt;
}

std::optional<Error> teacher_prompt_problem(const data::Encoder& encoder, const data::Conversation& row) {
  const auto prompt = encode_teacher_prompt(encoder, row);
  if (!prompt) return Error{prompt.error()};
  const auto length = static_cast<int64_t>(prompt->ids.size());
  const auto most = encoder.config().max_length;
  if (most <= 0 || length <= most) return std::nullopt;
  return data::row_error(data::RowProblem::too_long, row.origin.str(),
                         fmt::format("a teacher_prompt of {} tokens, which is not truncated; max_length is {}", length, most));
}

}  // namespace hone::train::rl

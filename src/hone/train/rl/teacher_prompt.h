// A row's separate prompt for the teacher: the column teacher_prompt, which replaces the last user message and may hold the
// solution, and the column teacher_images, which replaces the images.
#pragma once
#include <optional>

#include "hone/data/rollout_prompts.h"

namespace hone::train::rl {

// Whether a row has one of the columns.
bool has_teacher_prompt(const data::Conversation& row);

// The whole prompt with its media, whose positions differ from those in the student's prompt. It is never truncated.
Result<data::RolloutPrompt> encode_teacher_prompt(const data::Encoder& encoder, data::Conversation row);

// Why a row's teacher_prompt cannot be used: it cannot be encoded, or exceeds the encoder's max_length.
std::optional<Error> teacher_prompt_problem(const data::Encoder& encoder, const data::Conversation& row);

}  // namespace hone::train::rl

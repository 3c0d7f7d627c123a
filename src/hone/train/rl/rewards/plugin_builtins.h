// hone's own rewards, called by plugins under ms-swift's class names (swift.rewards.orm.MathAccuracy …).
#pragma once
#include "hone/base/json.h"

namespace hone::train::rl {

// {"builtin": "accuracy", "completions": […], "tokens": […], "columns": {"solution": […]}, "settings": {"cosine_max_len": …}}
// → {"rewards": […]}, or {"error": why}.
Json builtin_rewards(const Json& request);

}  // namespace hone::train::rl

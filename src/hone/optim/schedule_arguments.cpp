#include "hone/optim/schedule_arguments.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"

namespace hone::optim {
namespace {

double parsed_number(const char* key, const std::string& text) try { return std::stod(text); } catch (const std::exception&) {
  throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is \"{}\", expected a number", key, text));
}

}  // namespace

ScheduleArguments::ScheduleArguments(const LrSchedulerConfig& config)
    : config_(config), left_(config.arguments.is_null() ? Json::object() : config.arguments) {
  if (!left_.is_object())
    throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs` is {}, expected an object", left_.dump()),
                    R"(e.g. '{"min_lr": 1e-6}')");
}

std::optional<double> ScheduleArguments::number(const char* key) {
  auto found = left_.find(key);
  if (found == left_.end() || found->is_null()) return left_.erase(key), std::nullopt;
  std::optional<double> value;
  if (found->is_number()) value = found->get<double>();
  if (found->is_string()) value = parsed_number(key, found->get<std::string>());
  if (!value)
    throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is {}, expected a number", key, found->dump()));
  left_.erase(key);
  return value;
}

std::string ScheduleArguments::word(const char* key, const char* fallback, const std::vector<std::string>& choices) {
  if (!left_.contains(key)) return fallback;
  const Json value = left_[key];
  left_.erase(key);
  if (value.is_string() && std::ranges::count(choices, value.get<std::string>())) return value.get<std::string>();
  throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is {}, expected one of {}", key, value.dump(),
                                               fmt::join(choices, ", ")));
}

void ScheduleArguments::finish() const {
  if (!left_.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("`lr_scheduler_kwargs`: {} does not know \"{}\"", config_.name, left_.begin().key()),
                    left_.begin().key().starts_with("min_lr") ? "`lr_scheduler_type` cosine_with_min_lr takes it" : "");
}

}  // namespace hone::optim

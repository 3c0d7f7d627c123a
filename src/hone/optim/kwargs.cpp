#include "hone/optim/kwargs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hone/base/error.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/trimmed.h"

namespace hone::optim {

Json parse_optim_args(const std::string& text) {
  Json arguments = Json::object();
  std::string compact = trimmed(text);
  for (size_t begin = 0; begin < compact.size();) {
    const size_t end = std::min(compact.find(',', begin), compact.size());
    const std::string item = compact.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string::npos)
      throw UserError(ExitCode::usage, fmt::format("`optim_args`: \"{}\" has no \"=\"", trimmed(item)),
                      "write name=value,name=value");
    arguments[trimmed(item.substr(0, equals))] = trimmed(item.substr(equals + 1));
    begin = end + 1;
  }
  return arguments;
}

Kwargs::Kwargs(std::string option, std::string owner, const Json& given)
    : option_(std::move(option)), owner_(std::move(owner)), left_(given.is_null() ? Json::object() : given) {
  if (!left_.is_object())
    throw UserError(ExitCode::usage, fmt::format("`{}` is {}, expected an object", option_, left_.dump()),
                    R"(e.g. '{"min_lr": 1e-6}')");
}

std::optional<double> Kwargs::number(const char* key) {
  const auto given = take(key);
  if (!given) return std::nullopt;
  double value = 0;
  const auto [end, status] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (status != std::errc() || end != given->data() + given->size() || !std::isfinite(value)) wrong(key, *given, "a number");
  return value;
}

int64_t Kwargs::whole(const char* key, int64_t otherwise) {
  constexpr double kMost = 1e15;  // a double has all integers up to here
  const auto value = number(key);
  if (!value) return otherwise;
  if (std::abs(*value) > kMost || *value != std::trunc(*value)) wrong(key, fmt::format("{}", *value), "an integer");
  return static_cast<int64_t>(*value);
}

int64_t Kwargs::positive(const char* key, int64_t otherwise) {
  const auto value = whole(key, otherwise);
  if (value <= 0) wrong(key, fmt::format("{}", value), "1 or more");
  return value;
}

bool Kwargs::truth(const char* key, bool otherwise) {
  const auto given = take(key);
  if (!given) return otherwise;
  const auto word = lower_case(*given);
  if (word == "true" || word == "1" || word == "yes") return true;
  if (word != "false" && word != "0" && word != "no") wrong(key, *given, "true or false");
  return false;
}

std::string Kwargs::choice(const char* key, const std::vector<std::string>& choices, const std::string& otherwise) {
  auto given = text(key, otherwise);
  if (!std::ranges::count(choices, given)) wrong(key, given, fmt::format("one of {}", fmt::join(choices, ", ")));
  return given;
}

void Kwargs::finish(const std::string& advice) const {
  if (!left_.empty())
    throw UserError(ExitCode::usage, fmt::format("`{}`: {} does not know \"{}\"", option_, owner_, left_.begin().key()), advice);
}

// Null stands for an argument that is not given.
std::optional<std::string> Kwargs::take(const char* key) {
  const auto found = left_.find(key);
  if (found == left_.end()) return std::nullopt;
  const Json value = *found;
  left_.erase(key);
  if (value.is_null()) return std::nullopt;
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void Kwargs::wrong(const char* key, const std::string& found, const std::string& expected) const {
  throw UserError(ExitCode::usage, fmt::format("`{}`: {} is \"{}\", expected {}", option_, key, found, expected));
}

}  // namespace hone::optim

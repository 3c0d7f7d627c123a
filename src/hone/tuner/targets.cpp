#include "hone/tuner/targets.h"

#include <algorithm>
#include <charconv>

namespace hone::tuner {
namespace {

std::vector<std::regex> pattern_keys(const auto& entries, const char* option) {
  std::vector<std::regex> keys;
  for (const auto& entry : entries) keys.push_back(compile_regex("(.*\\.)?(" + entry.first + ")", option));
  return keys;
}

template <class T>
T matched_value(const std::vector<std::pair<std::string, T>>& entries, const std::vector<std::regex>& keys,
                const std::string& path, T fallback) {
  for (size_t i = 0; i < keys.size(); ++i)
    if (std::regex_match(path, keys[i])) return entries[i].second;
  return fallback;
}

bool any_ends(const std::vector<std::string>& names, std::string_view path) {
  return std::ranges::any_of(names, [&](const auto& name) { return ends_in(path, name); });
}

}  // namespace

std::string_view last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

int64_t layer_index(std::string_view path) {
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    const size_t end = path.find('.', dot + 1);
    if (end == std::string_view::npos) break;
    int64_t index = -1;
    const auto [stop, code] = std::from_chars(path.data() + dot + 1, path.data() + end, index);
    if (code == std::errc() && stop == path.data() + end && index >= 0) return index;
  }
  return -1;
}

std::string escaped_path(std::string_view path) {
  std::string out;
  for (char c : path) out += c == '.' ? "\\." : std::string(1, c);
  return out;
}

bool ends_in(std::string_view path, std::string_view name) {
  return path.ends_with(name) && (path.size() == name.size() || path[path.size() - name.size() - 1] == '.');
}

std::regex compile_regex(const std::string& expression, const char* option) try {
  return std::regex(expression, std::regex::ECMAScript | std::regex::optimize);
} catch (const std::regex_error& problem) {
  throw UserError(ExitCode::usage,
                  fmt::format("{}: \"{}\" is not a regular expression hone reads ({})", option, expression, problem.what()));
}

TargetMatcher::TargetMatcher(const io::AdapterConfig& config)
    : config_(config),
      target_(compile_regex(config.targets.regex, "target_modules")),
      excluded_(compile_regex(config.excluded.regex, "exclude_modules")),
      rank_keys_(pattern_keys(config.rank_pattern, "rank_pattern")),
      alpha_keys_(pattern_keys(config.alpha_pattern, "alpha_pattern")) {}

bool TargetMatcher::is_module_to_save(const std::string& path) const {
  return std::ranges::any_of(config_.modules_to_save, [&](const std::string& name) {
    return ends_in(path, name) || ("." + path).find("." + name + ".") != std::string::npos;
  });
}

bool TargetMatcher::in_chosen_layer(const std::string& path) const {
  if (config_.layers_to_transform.empty()) return true;
  const int64_t index = layer_index(path);
  if (index < 0) return false;
  if (!config_.layers_pattern.empty() && std::ranges::none_of(config_.layers_pattern, [&](const std::string& pattern) {
        return ("." + path).find(fmt::format(".{}.{}.", pattern, index)) != std::string::npos;
      }))
    return false;
  return std::ranges::count(config_.layers_to_transform, index) > 0;
}

bool TargetMatcher::operator()(const std::string& path) const {
  if (config_.excluded.regex.empty() ? any_ends(config_.excluded.names, path) : std::regex_match(path, excluded_)) return false;
  if (is_module_to_save(path)) return false;
  if (!config_.targets.regex.empty()) return std::regex_match(path, target_);
  // A full path in the list takes precedence over layers_to_transform, as in PEFT.
  if (std::ranges::count(config_.targets.names, path)) return true;
  return any_ends(config_.targets.names, path) && in_chosen_layer(path);
}

bool TargetMatcher::parameter(const std::string& name) const { return any_ends(config_.target_parameters, name); }

bool TargetMatcher::slot(const model::AdapterSlot& slot) const {
  if (slot.kind == model::SlotKind::experts) return parameter(slot.path);
  const bool by_parameter = slot.kind != model::SlotKind::embedding && parameter(slot.path + ".weight");
  return by_parameter || (slot.kind != model::SlotKind::router && (*this)(slot.path));
}

int64_t TargetMatcher::rank(const std::string& path) const {
  return matched_value(config_.rank_pattern, rank_keys_, path, config_.rank);
}

double TargetMatcher::alpha(const std::string& path) const {
  return matched_value(config_.alpha_pattern, alpha_keys_, path, config_.alpha);
}

bool saves_parameter(const std::vector<std::string>& modules_to_save, std::string_view parameter) {
  for (size_t dot = parameter.find('.'); dot != std::string_view::npos; dot = parameter.find('.', dot + 1))
    for (const auto& name : modules_to_save)
      if (parameter.substr(0, dot).ends_with(name)) return true;
  return false;
}

}  // namespace hone::tuner

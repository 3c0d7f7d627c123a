// Log lines on stderr, as text or JSON. Colors only on a terminal. Lines do not break a progress bar.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace hone::log {

enum class Level { debug, info, warning, error, off };
enum class Format { text, json };

struct Config {
  Level level = Level::info;
  Format format = Format::text;
};
void configure(const Config& config);

// How log lines render settings in backquotes; unchanged unless the command line sets it.
void set_naming(std::function<std::string(std::string_view)> naming);

Level parse_level(std::string_view name);  // throws UserError(usage) naming the choices

void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

// Logs a message once per process.
void warn_once(const std::string& message);

}  // namespace hone::log

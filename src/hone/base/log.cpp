#include "hone/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <set>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/base/progress.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/terminal.h"

namespace hone::log {
namespace {

using terminal::Style;

Config g_config;
std::function<std::string(std::string_view)> g_naming;

spdlog::logger& stderr_logger() {
  static auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("hone", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

std::string clock_time(const char* format) {
  auto now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

std::string text_line(Level level, std::string_view message) {
  static constexpr struct {
    const char* name;
    Style style;
  } kLook[] = {{"debug", Style::dim}, {"info", Style::green}, {"warning", Style::yellow}, {"error", Style::red}};
  const auto& look = kLook[static_cast<int>(level)];
  return fmt::format("{} {} {}", terminal::styled(clock_time("%H:%M:%S"), Style::dim, 2),
                     terminal::styled(fmt::format("{:<7}", look.name), look.style, 2), message);
}

std::string json_line(Level level, std::string_view message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  Json line{{"time", clock_time("%Y-%m-%dT%H:%M:%S%z")}, {"level", kNames[static_cast<int>(level)]}, {"message", message}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void configure(const Config& config) { g_config = config; }

void set_naming(std::function<std::string(std::string_view)> naming) { g_naming = std::move(naming); }

Level parse_level(std::string_view name) {
  static constexpr std::pair<std::string_view, Level> kLevels[] = {
      {"debug", Level::debug}, {"info", Level::info},      {"warning", Level::warning}, {"warn", Level::warning},
      {"error", Level::error}, {"critical", Level::error}, {"passive", Level::info},    {"off", Level::off}};
  const auto lower = lower_case(name);
  for (auto [known, level] : kLevels)
    if (known == lower) return level;
  throw UserError(ExitCode::usage, fmt::format("`log_level` is \"{}\"; expected debug, info, warning, error or off", name));
}

void write(Level level, std::string_view message) {
  if (level < g_config.level) return;
  const auto line = g_naming ? g_naming(message) : std::string(message);
  ProgressBar::erase_active();
  stderr_logger().info(g_config.format == Format::json ? json_line(level, line) : text_line(level, line));
  ProgressBar::redraw_active();
}

void warn_once(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  {
    std::lock_guard lock(mutex);
    if (!logged.insert(message).second) return;
  }
  write(Level::warning, message);
}

}  // namespace hone::log

#include "hone/tinker/state/round_journal.h"

#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/log.h"

namespace hone::tinker {
namespace {

// The process may have ended while it wrote the line.
Json left_over(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::array();
  auto line = parse_json(read_file(file));
  return line && line->is_array() ? std::move(*line) : Json::array();
}

bool is_entry(const Json& json) {
  const auto holds = [&](const char* name, auto is_of_type) { return json.contains(name) && is_of_type(json[name]); };
  const auto is_integer = [](const Json& value) { return value.is_number_integer(); };
  return json.is_object() && holds("run", [](const Json& value) { return value.is_string(); }) && holds("seq", is_integer) &&
         holds("crashes", is_integer);
}

}  // namespace

RoundJournal::RoundJournal(std::filesystem::path file) : file_(std::move(file)) {
  for (const auto& each : left_over(file_)) {
    if (!is_entry(each)) continue;
    const RequestName request{each["run"].get<std::string>(), each["seq"].get<int64_t>()};
    crashes_[request] = std::min(each["crashes"].get<int>(), kMaxCrashes) + 1;
    log::warning("the server ended while it computed request {} of {}, or was ended", request.second, request.first);
  }
}

void RoundJournal::begin(const std::vector<RequestName>& requests) try {
  Json line = Json::array();
  for (const auto& request : requests)
    line.push_back({{"run", request.first}, {"seq", request.second}, {"crashes", crashes(request)}});
  end();
  append_line(file_, line.dump());
} catch (const std::exception& problem) {
  log::error("{}: {}", file_.string(), problem.what());
}

void RoundJournal::end() {
  std::error_code missing;
  std::filesystem::resize_file(file_, 0, missing);
}

int RoundJournal::crashes(const RequestName& request) const {
  auto found = crashes_.find(request);
  return found == crashes_.end() ? 0 : found->second;
}

}  // namespace hone::tinker

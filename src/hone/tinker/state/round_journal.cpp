#include "hone/tinker/state/round_journal.h"

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/log.h"

namespace hone::tinker {
namespace {

// A process may have died while it wrote the line.
Json left_over(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::array();
  auto line = parse_json(read_file(file));
  return line && line->is_array() ? std::move(*line) : Json::array();
}

}  // namespace

RoundJournal::RoundJournal(std::filesystem::path file) : file_(std::move(file)) {
  for (const auto& each : left_over(file_)) {
    if (!each.is_object()) continue;
    const RequestName request{each.value("run", ""), each.value("seq", int64_t{0})};
    deaths_[request] = each.value("deaths", 0) + 1;
    log::warning("the server ended while it computed request {} of {}, or was ended", request.second, request.first);
  }
}

void RoundJournal::begin(const std::vector<RequestName>& requests) try {
  Json line = Json::array();
  for (const auto& request : requests)
    line.push_back({{"run", request.first}, {"seq", request.second}, {"deaths", deaths(request)}});
  end();
  append_line(file_, line.dump());
} catch (const std::exception& problem) {
  log::error("{}: {}", file_.string(), problem.what());
}

void RoundJournal::end() {
  std::error_code missing;
  std::filesystem::resize_file(file_, 0, missing);
}

int RoundJournal::deaths(const RequestName& request) const {
  auto found = deaths_.find(request);
  return found == deaths_.end() ? 0 : found->second;
}

}  // namespace hone::tinker

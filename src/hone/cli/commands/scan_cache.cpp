// scan-cache: lists the contents of the ModelScope and Hugging Face caches and their disk usage.
#include <chrono>

#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/text_table.h"
#include "hone/hub/access.h"
#include "hone/hub/scan.h"

namespace hone::cli {
namespace {

using hub::CachedRepo;
using terminal::Style;
using terminal::styled;

std::string day_of(std::filesystem::file_time_type time) {
  auto seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(time)));
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&seconds));
  return text;
}

Json to_json(const CachedRepo& repo) {
  return {{"id", repo.id},
          {"kind", repo.kind == hub::Kind::model ? "model" : "dataset"},
          {"hub", hub::site_name(repo.site)},
          {"revisions", repo.revisions},
          {"bytes", repo.bytes},
          {"files", repo.files},
          {"changed", day_of(repo.changed)},
          {"folder", repo.folder.string()},
          {"missing", repo.missing}};
}

void print_table(const std::vector<CachedRepo>& repos) {
  TextTable table({"id", "kind", "hub", "size", "files", "changed", "folder"});
  uint64_t total = 0;
  for (const auto& repo : repos) {
    total += repo.bytes;
    table.add({styled(repo.id, Style::cyan), repo.kind == hub::Kind::model ? "model" : "dataset",
               std::string(hub::site_name(repo.site)), format_bytes(static_cast<double>(repo.bytes)), std::to_string(repo.files),
               day_of(repo.changed),
               repo.missing.empty()
                   ? repo.folder.string()
                   : fmt::format("{} {}", repo.folder.string(),
                                 styled(fmt::format("lacks {}", fmt::join(repo.missing, ", ")), Style::yellow))});
  }
  table.align_right(3);
  table.align_right(4);
  if (!repos.empty()) fmt::print("{}", table.str(static_cast<size_t>(terminal::columns())));
  fmt::print("{} in {} and {}, {} in all\n", repos.empty() ? "nothing" : std::to_string(repos.size()),
             hub::cache_of(hub::Site::modelscope).string(), hub::cache_of(hub::Site::hugging_face).string(),
             format_bytes(static_cast<double>(total)));
}

}  // namespace

int scan_cache_command(const Options& options) {
  auto repos = hub::scan_caches();
  if (*ToolArguments(options).format != "json") {
    print_table(repos);
    return 0;
  }
  Json rows = Json::array();
  for (const auto& repo : repos) rows.push_back(to_json(repo));
  fmt::print("{}\n", rows.dump(2));
  return 0;
}

}  // namespace hone::cli

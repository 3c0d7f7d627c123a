// models: lists the families hone can load and train, and the cached models of each.
#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/text_table.h"
#include "hone/hub/scan.h"
#include "hone/model/families/family.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;

std::string architecture_of(const std::filesystem::path& folder) {
  auto file = folder / "config.json";
  if (!fs::is_regular_file(file)) return fs::exists(folder / "adapter_config.json") ? "adapter" : "";
  auto config = parse_json(read_file(file));
  if (!config || !config->is_object()) return "";
  auto names = config->find("architectures");
  bool named = names != config->end() && names->is_array() && !names->empty() && names->front().is_string();
  return named ? names->front().get<std::string>() : "";
}

std::string family_of(const std::string& architecture) {
  for (const auto& family : model::families())
    for (const auto& name : family.architectures)
      if (name == architecture) return family.name;
  return "";
}

std::vector<hub::CachedRepo> cached_models() {
  auto repos = hub::scan_caches();
  std::erase_if(repos, [](const hub::CachedRepo& repo) { return repo.kind != hub::Kind::model; });
  return repos;
}

Json to_json(const std::vector<hub::CachedRepo>& cached) {
  Json families = Json::array(), models = Json::array();
  for (const auto& family : model::families())
    families.push_back({{"family", family.name}, {"architectures", family.architectures}});
  for (const auto& repo : cached) {
    auto architecture = architecture_of(repo.folder);
    models.push_back({{"id", repo.id},
                      {"hub", hub::site_name(repo.site)},
                      {"architecture", architecture},
                      {"family", family_of(architecture)},
                      {"bytes", repo.bytes},
                      {"folder", repo.folder.string()},
                      {"missing", repo.missing}});
  }
  return {{"families", families}, {"cached", models}};
}

std::string support(const hub::CachedRepo& repo, const std::string& architecture) {
  if (!repo.missing.empty()) return styled(fmt::format("lacks {}", fmt::join(repo.missing, ", ")), Style::yellow);
  if (architecture == "adapter") return "adapter";
  auto family = family_of(architecture);
  return family.empty() ? styled(architecture.empty() ? "no config.json" : architecture + ": not supported", Style::yellow)
                        : styled("✓ " + family, Style::green);
}

void print_tables(const std::vector<hub::CachedRepo>& cached) {
  TextTable families({"family", "architectures"});
  for (const auto& family : model::families())
    families.add({styled(family.name, Style::cyan), fmt::format("{}", fmt::join(family.architectures, ", "))});
  auto width = static_cast<size_t>(terminal::columns());
  fmt::print("{}\n", families.str(width));
  if (cached.empty()) {
    fmt::print("no models in the caches; hone download Qwen/Qwen2.5-0.5B-Instruct fetches one\n");
    return;
  }
  TextTable models({"cached", "hub", "size", ""});
  for (const auto& repo : cached)
    models.add({styled(repo.id, Style::cyan), std::string(hub::site_name(repo.site)),
                format_bytes(static_cast<double>(repo.bytes)), support(repo, architecture_of(repo.folder))});
  models.align_right(2);
  fmt::print("{}", models.str(width));
}

}  // namespace

int models_command(const Options& options) {
  auto cached = cached_models();
  if (*ToolArguments(options).format == "json")
    fmt::print("{}\n", to_json(cached).dump(2));
  else
    print_tables(cached);
  return 0;
}

}  // namespace hone::cli

#include "hone/data/datasets/locate_dataset.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/data/datasets/dataset_files.h"
#include "hone/data/datasets/dataset_spec.h"
#include "hone/data/datasets/known_datasets.h"
#include "hone/data/datasets/registry_scope.h"
#include "hone/data/datasets/self_cognition.h"
#include "hone/hub/locate.h"
#include "hone/hub/nearby.h"

namespace hone::data {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_factory(const DatasetConfig& config) { return config.dialect == DatasetConfig::Dialect::factory; }

// One subset of a folder and its requested splits.
struct SubsetChoice {
  std::string subset;
  std::vector<std::string> splits;
  std::optional<std::map<std::string, std::string>> columns;
  std::string name = "default";  // the subset's, by which a dataset is known
};

SubsetChoice choice_of(const SwiftSubset& subset, const SwiftEntry& entry) {
  return {subset.subset, subset.split.empty() ? entry.split : subset.split, subset.columns, subset.name};
}

std::vector<SubsetChoice> choose_subsets(const std::vector<std::string>& words, const SwiftEntry* entry, const fs::path& folder) {
  static const SwiftEntry none;
  const SwiftEntry& info = entry ? *entry : none;
  std::vector<SubsetChoice> chosen;
  if (words.empty() && info.subsets.empty()) return {{"default", info.split, std::nullopt}};
  if (words.empty() && info.subsets.size() == 1) return {choice_of(info.subsets.front(), info)};
  for (const auto& word : words.empty() ? std::vector<std::string>{"default"} : words) {
    auto named =
        std::find_if(info.subsets.begin(), info.subsets.end(), [&](const SwiftSubset& subset) { return subset.name == word; });
    if (named != info.subsets.end()) {
      chosen.push_back(choice_of(*named, info));
    } else if (word == "all" && !info.subsets.empty()) {
      for (const auto& subset : info.subsets)
        if (!subset.weak) chosen.push_back(choice_of(subset, info));
    } else if (words.empty()) {
      throw UserError(ExitCode::usage, fmt::format("{}: several subsets and none is the default", folder.string()),
                      "name one, as in ID:subset");
    } else if (is_split_name(word) && !fs::is_directory(folder / word)) {
      // "id:subset/split": a split narrows the subset before it.
      if (chosen.empty()) chosen.push_back({"default", {}, std::nullopt});
      if (chosen.back().splits == info.split && chosen.back().subset != "default") chosen.back().splits.clear();
      chosen.back().splits.push_back(word);
    } else {
      chosen.push_back({word, info.split, std::nullopt});
    }
  }
  return chosen;
}

std::vector<fs::path> factory_files(const fs::path& path, const FactoryEntry& entry) {
  if (fs::is_regular_file(path)) return {path};
  if (!fs::is_directory(path))
    throw UserError(ExitCode::bad_data, fmt::format("dataset \"{}\": {} does not exist", entry.name, path.string()),
                    "put the file there or fix dataset_info.json");
  if (!is_inside(path, path / entry.folder))
    throw UserError(ExitCode::bad_data,
                    fmt::format("dataset \"{}\": its folder \"{}\" is outside {}", entry.name, entry.folder, path.string()),
                    "name a folder inside, in dataset_info.json");
  auto files = dataset_files(entry.folder.empty() ? path : path / entry.folder, entry.subset, entry.split);
  for (const auto& file : files)
    if (file.extension() != files.front().extension() &&
        !(file.extension().string().starts_with(".json") && files.front().extension().string().starts_with(".json")))
      throw UserError(
          ExitCode::bad_data,
          fmt::format("{}: both {} and {} files", path.string(), files.front().filename().string(), file.filename().string()),
          "the files of one dataset must share a type");
  return files;
}

using FormatMaker = decltype(DatasetPart::format);

// A folder named after a dataset of ms-swift. A file with other columns than the dataset's is read by these.
class NamesakeFolder {
 public:
  NamesakeFolder(const fs::path& folder, const SwiftEntry& entry)
      : folder_(folder.string()), id_(entry.ms_id.empty() ? entry.hf_id : entry.ms_id) {}

  FormatMaker format(KnownRows known, FormatMaker of_dataset, FormatMaker by_columns) const {
    if (!known.change && known.columns.empty()) return of_dataset;
    return [=, *this](const std::vector<std::string>& columns) {
      const bool is_copy = known.describes(columns);
      if (logged_->insert(is_copy).second)
        log::info("dataset {}: {}", folder_,
                  is_copy ? fmt::format("rows are read as ms-swift reads those of {}", id_)
                          : fmt::format("its columns are not those of {}, so they are read by their names", id_));
      if (!is_copy) return by_columns(columns);
      return known.change ? changed_rows(of_dataset(columns), known) : of_dataset(columns);
    };
  }

 private:
  std::string folder_, id_;
  std::shared_ptr<std::set<bool>> logged_ = std::make_shared<std::set<bool>>();  // once for all files
};

}  // namespace

DatasetLocator::DatasetLocator(const DatasetConfig& config) : config_(config), factory_info_(Json::object()) {
  if (is_factory(config) && config.dataset_dir != "ONLINE") factory_info_ = read_factory_info(config.dataset_dir);
  swift_entries_ = read_swift_info(config.custom_dataset_info);
}

LocatedDataset DatasetLocator::locate(const std::string& word) const {
  return is_factory(config_) && factory_info_.contains(word) ? locate_entry(word) : locate_word(word);
}

DatasetPart DatasetLocator::swift_part(std::vector<fs::path> files, const SwiftFormatOptions& options) const {
  SwiftFormatOptions complete = options;
  complete.columns = config_.columns;
  complete.auto_columns = options.auto_columns && !config_.disable_auto_column_mapping;
  complete.demands = demands();
  return {std::move(files), "default", [complete](const std::vector<std::string>& columns) {
            return std::shared_ptr<const RowFormat>(swift_format(complete, columns));
          }};
}

std::vector<DatasetPart> DatasetLocator::folder_parts(const fs::path& folder, const std::vector<std::string>& subsets,
                                                      const SwiftEntry* entry, bool is_known) const {
  std::vector<DatasetPart> parts;
  const auto namesake = is_known ? std::optional(NamesakeFolder(folder, *entry)) : std::nullopt;
  for (const auto& choice : choose_subsets(subsets, entry, folder)) {
    SwiftFormatOptions options = entry ? entry->format : SwiftFormatOptions{};
    if (choice.columns) options.info_columns = *choice.columns;
    auto known = is_known ? known_rows(*entry, choice.name) : KnownRows{};
    if (!known.change)
      for (const auto& [column, target] : options.info_columns) known.columns.push_back(column);
    if (known.is_complete) options.auto_columns = false;
    for (const auto& split : choice.splits) {
      parts.push_back(swift_part(dataset_files(folder, choice.subset, split), options));
      if (namesake) parts.back().format = namesake->format(known, std::move(parts.back().format), swift_part({}, {}).format);
    }
  }
  return parts;
}

fs::path DatasetLocator::folder_of(const std::string& id, const std::string& hub) const {
  bool looks_like_path = id.starts_with('/') || id.starts_with('.') || is_dataset_file(id);
  if (!looks_like_path && config_.resolver) return config_.resolver(id, hub);
  if (!looks_like_path)
    if (auto cached = hub::find_in_caches(id, hub::Kind::dataset)) return *cached;
  throw UserError(
      ExitCode::usage,
      fmt::format("dataset \"{}\" is not a local file or folder{}", id, looks_like_path ? "" : " and not in the hub caches"),
      looks_like_path ? hub::spelling_hint(id, "check the path")
                      : "download it and pass its folder, or put it into the Hugging Face or ModelScope cache");
}

LocatedDataset DatasetLocator::locate_word(const std::string& text) const {
  auto word = parse_dataset_spec(text);
  LocatedDataset located{word.name, {}, word.sample, std::nullopt};
  const SwiftEntry* entry = find_swift_entry(swift_entries_, word.name);
  if (is_self_cognition(word.name) && !entry && !is_there(word.name)) {
    auto part = swift_part({}, {});
    if (!word.subsets.empty()) part.variant = word.subsets.front();
    located.parts.push_back(std::move(part));
    return located;
  }
  const SwiftEntry* known = entry || is_factory(config_) ? nullptr : find_known_dataset(word.name);
  fs::path path = is_there(word.name) ? word.name : entry && !entry->path.empty() ? entry->path : "";
  if (path.empty() && is_factory(config_) && config_.dataset_dir != "ONLINE" && word.name.find('/') == word.name.npos)
    factory_entry(factory_info_, word.name, (fs::path(config_.dataset_dir) / "dataset_info.json").string());
  if (path.empty()) {
    bool from_hf = word.hub == "hf" || (word.hub.empty() && config_.prefer_hf);
    std::string id = !entry ? word.name : from_hf || entry->ms_id.empty() ? entry->hf_id : entry->ms_id;
    path = folder_of(id.empty() ? word.name : id, word.hub);
  }
  std::optional<SwiftEntry> present;
  if (known && fs::is_directory(path)) present = present_in(*known, path);
  if (fs::is_directory(path))
    located.parts = folder_parts(path, word.subsets, present ? &*present : entry, present.has_value());
  else
    located.parts.push_back(swift_part({path}, entry ? entry->format : SwiftFormatOptions{}));
  return located;
}

LocatedDataset DatasetLocator::locate_entry(const std::string& name) const {
  fs::path dir = config_.dataset_dir;
  auto where = (dir / "dataset_info.json").string();
  auto entry = factory_entry(factory_info_, name, where);
  if (entry.format.ranking != config_.ranking)
    throw UserError(ExitCode::usage,
                    fmt::format("{}: dataset \"{}\" {} ranking data", where, name, entry.format.ranking ? "is" : "is not"),
                    config_.ranking ? "this stage needs \"ranking\": true" : "ranking data is for the stages rm and dpo");
  entry.format.media_dir = config_.media_dir.empty() ? config_.dataset_dir : config_.media_dir;
  entry.format.demands = demands();
  fs::path path = dir / entry.file_name;
  if (!entry.ms_id.empty() && (config_.prefer_modelscope || entry.hf_id.empty()))
    path = folder_of(entry.ms_id, "ms");
  else if (!entry.hf_id.empty())
    path = folder_of(entry.hf_id, "hf");
  else
    refuse_outside(where, name, path);
  auto options = entry.format;
  DatasetPart part{factory_files(path, entry), "", [options](const std::vector<std::string>&) {
                     return std::shared_ptr<const RowFormat>(factory_format(options));
                   }};
  return {name, {std::move(part)}, std::nullopt, entry.num_samples};
}

}  // namespace hone::data

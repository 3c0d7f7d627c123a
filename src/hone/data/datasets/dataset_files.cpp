#include "hone/data/datasets/dataset_files.h"

#include <algorithm>
#include <set>

#include "hone/base/file.h"
#include "hone/base/strings/lower_case.h"
#include "hone/data/formats/columns.h"
#include "hone/data/readers/row_reader.h"

namespace hone::data {
namespace {

std::string split_named(const std::string& word) {
  if (word == "train" || word == "training") return "train";
  if (word == "validation" || word == "valid" || word == "val" || word == "dev") return "validation";
  if (word == "test" || word == "testing" || word == "eval" || word == "evaluation") return "test";
  return "";
}

bool is_card(const fs::path& file) {
  auto name = file.filename().string();
  return name == "dataset_info.json" || name == "dataset_infos.json" || name == "configuration.json" || name.starts_with(".");
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && (entry->path().filename().string().starts_with(".") || entry.depth() > 8))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file() && is_dataset_file(entry->path()) && !is_card(entry->path()))
      files.push_back(entry->path());
  }
  // Text files next to data tables are licenses and notes.
  auto is_text = [](const fs::path& file) { return file.extension() == ".txt"; };
  if (!std::all_of(files.begin(), files.end(), is_text)) std::erase_if(files, is_text);
  std::sort(files.begin(), files.end());
  return files;
}

std::string listing(const std::vector<fs::path>& files, const fs::path& folder) {
  std::string list;
  for (size_t i = 0; i < files.size() && i < 8; ++i) list += (i ? ", " : "") + files[i].lexically_relative(folder).string();
  return files.size() > 8 ? list + ", …" : list;
}

}  // namespace

std::vector<std::string> path_words(const std::string& path) {
  std::vector<std::string> words(1);
  for (char c : lower_case(path)) {
    if (c >= 'a' && c <= 'z')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

bool is_split_name(const std::string& word) { return !split_named(word).empty(); }

std::string split_of(const fs::path& relative) {
  for (const auto& word : path_words(relative.string()))
    if (auto split = split_named(word); !split.empty()) return split;
  return "";
}

std::vector<fs::path> dataset_files(const fs::path& folder, const std::string& subset, const std::string& split) {
  bool whole = subset.empty() || subset == "default";
  if (!whole && !is_inside(folder, folder / subset))
    throw UserError(ExitCode::bad_data, fmt::format("{}: subset \"{}\" is outside the dataset's folder", folder.string(), subset),
                    "name a folder inside, or pass the other folder itself");
  auto root = !whole && fs::is_directory(folder / subset) ? folder / subset : folder;
  auto files = files_below(root);
  if (files.empty())
    throw UserError(ExitCode::bad_data, folder.string() + ": no dataset files",
                    "expected .jsonl, .json, .csv, .tsv, .txt or .parquet inside");
  auto all = files;
  if (!whole && root == folder) {
    std::erase_if(
        files, [&](const fs::path& file) { return file.lexically_relative(folder).string().find(subset) == std::string::npos; });
    if (files.empty())
      throw UserError(ExitCode::bad_data, fmt::format("{}: no subset \"{}\"", folder.string(), subset),
                      "it holds " + listing(all, folder));
  }
  bool marked = std::any_of(files.begin(), files.end(),
                            [&](const fs::path& file) { return !split_of(file.lexically_relative(root)).empty(); });
  auto wanted = split_named(split).empty() ? split : split_named(split);
  if (!marked && wanted == "train") return files;
  std::erase_if(files, [&](const fs::path& file) { return split_of(file.lexically_relative(root)) != wanted; });
  if (files.empty())
    throw UserError(ExitCode::bad_data, fmt::format("{}: no files of split \"{}\"", folder.string(), split),
                    "it holds " + listing(all, folder));
  return files;
}

}  // namespace hone::data

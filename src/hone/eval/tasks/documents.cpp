#include "hone/eval/tasks/documents.h"

#include <algorithm>
#include <set>

#include "hone/base/file.h"
#include "hone/base/strings/replace_all.h"
#include "hone/data/datasets/dataset_files.h"
#include "hone/data/datasets/python_random.h"
#include "hone/data/readers/csv.h"
#include "hone/data/readers/row_reader.h"
#include "hone/text/jinja/unicode.h"

namespace hone::eval {
namespace {

// MMLU's own files have no header row.
const std::vector<std::string> kBareColumns = {"question", "A", "B", "C", "D", "answer"};

std::vector<fs::path> files_of_split(const fs::path& root, const std::string& split) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(root, fs::directory_options::follow_directory_symlink);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && (entry->path().filename().string().starts_with(".") || entry.depth() > 6))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file() && data::is_dataset_file(entry->path()) &&
             std::ranges::count(data::path_words(entry->path().lexically_relative(root).string()), split) > 0)
      files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

// "anatomy" for test/anatomy_test.csv, anatomy/test-00000.parquet and test/anatomy.csv.
std::string subset_of(const fs::path& file, const fs::path& root, const std::string& split) {
  auto relative = file.lexically_relative(root);
  auto stem = relative.stem().string();
  for (const auto& mark : {"_" + split, "-" + split})
    if (stem.ends_with(mark)) return stem.substr(0, stem.size() - mark.size());
  if (stem == split || stem.starts_with(split + "-") || stem.starts_with(split + "_"))
    return relative.has_parent_path() && relative.parent_path().filename() != "data" ? relative.parent_path().filename().string()
                                                                                     : "";
  return stem;
}

std::vector<fs::path> split_files(const fs::path& folder, const std::string& subset, const std::string& split) {
  bool whole = subset.empty() || subset == "default";
  auto root = !whole && fs::is_directory(folder / subset) ? folder / subset : folder;
  auto files = files_of_split(root, split);
  if (!whole && root == folder)
    std::erase_if(files, [&](const fs::path& file) { return subset_of(file, root, split) != subset; });
  if (!files.empty()) return files;
  for (const char* ending : {".jsonl", ".json", ".csv", ".parquet"})  // BBH: one file per subset, no split
    if (auto file = folder / (subset + ending); !whole && fs::is_regular_file(file)) return {file};
  return data::dataset_files(folder, subset, split);
}

std::vector<std::string> csv_records(std::string_view text) {
  std::vector<std::string> records;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '"') quoted = !quoted;
    if (i < text.size() && (text[i] != '\n' || quoted)) continue;
    if (i > begin && text.substr(begin, i - begin) != "\r") records.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return records;
}

// Rows of a CSV file without a header. Nothing if the first line looks like a header.
std::optional<std::vector<Json>> bare_csv_rows(const fs::path& file) {
  auto records = csv_records(read_file(file));
  if (records.empty()) return std::nullopt;
  auto first = data::split_csv_record(records[0], ',');
  bool bare = first && first->size() == kBareColumns.size() && first->back().size() == 1 && first->back() >= "A" &&
              first->back() <= "D" && (*first)[1] != "A";
  if (!bare) return std::nullopt;
  std::vector<Json> rows;
  for (size_t i = 0; i < records.size(); ++i) {
    auto row = data::parse_csv_row(records[i], ',', kBareColumns, {file.string(), static_cast<int64_t>(i + 1), ""});
    if (!row) throw UserError(ExitCode::bad_data, row.error());
    rows.push_back(std::move(*row));
  }
  return rows;
}

void add_rows(const fs::path& file, std::vector<Json>& documents) {
  if (file.extension() == ".csv")
    if (auto rows = bare_csv_rows(file)) {
      for (auto& row : *rows) documents.push_back(std::move(row));
      return;
    }
  auto rows = data::open_rows(file);
  for (int64_t i = 0; i < rows->size(); ++i) {
    auto row = rows->at(i);
    if (!row) throw UserError(ExitCode::bad_data, row.error());
    if (auto examples = row->fields.find("examples"); examples != row->fields.end() && examples->is_array() && rows->size() == 1)
      for (auto& example : *examples) documents.push_back(std::move(example));  // BBH's own files
    else
      documents.push_back(std::move(row->fields));
  }
}

// A path as given, or relative to the task's file.
fs::path existing(const fs::path& path, const fs::path& task_folder) {
  if (fs::exists(path) || path.is_absolute()) return path;
  return fs::exists(task_folder / path) ? task_folder / path : path;
}

std::vector<fs::path> listed_files(const DatasetConfig& dataset, const std::string& split) {
  auto given = dataset.data_files;
  if (given.is_object()) {
    if (!given.contains(split)) {
      std::vector<std::string> names;
      for (const auto& [name, files] : given.items()) names.push_back(name);
      throw UserError(ExitCode::bad_data, fmt::format("data_files has no split {}", split),
                      fmt::format("it has {}", fmt::join(names, ", ")));
    }
    given = given[split];
  }
  std::vector<fs::path> files;
  for (const auto& file : given.is_array() ? given : Json::array({given}))
    files.push_back(existing(file.get<std::string>(), dataset.task_folder));
  return files;
}

std::string gpqa_choice(const Json& document, const char* column) {
  const auto found = document.find(column);
  if (found == document.end())
    throw UserError(ExitCode::bad_data, fmt::format("a document of gpqa has no column {}", column),
                    "expected Question, Correct Answer, Incorrect Answer 1, Incorrect Answer 2 and Incorrect Answer 3");
  if (!found->is_string()) return found->is_null() ? " " : found->dump();
  std::string text(text::jinja::strip_space(found->get_ref<const std::string&>(), text::jinja::Side::both));
  for (const auto& [old, replacement] : {std::pair<std::string_view, std::string_view>(" [title]", ". "), {"  ", " "}})
    text = replace_all(std::move(text), old, replacement);
  return text;
}

void shuffle_gpqa_choices(Json& document, data::PythonRandom& random) {
  const auto right = gpqa_choice(document, "Correct Answer");
  std::vector<std::string> choices{gpqa_choice(document, "Incorrect Answer 1"), gpqa_choice(document, "Incorrect Answer 2"),
                                   gpqa_choice(document, "Incorrect Answer 3"), right};
  random.shuffle(choices);
  for (size_t i = 0; i < choices.size(); ++i) document[fmt::format("choice{}", i + 1)] = choices[i];
  document["answer"] = fmt::format("({})", static_cast<char>('A' + (std::ranges::find(choices, right) - choices.begin())));
}

}  // namespace

fs::path dataset_folder(const DatasetConfig& dataset, const FetchDataset& fetch) {
  auto path = existing(dataset.path, dataset.task_folder);
  if (fs::exists(path)) return path;
  for (const char* builder : {"json", "csv", "parquet", "text"})
    if (dataset.path == builder)
      throw UserError(ExitCode::bad_data, fmt::format("dataset_path {} has no data_files", builder),
                      "list them: dataset_kwargs: {data_files: {test: file.jsonl}}");
  return fetch(dataset.path);
}

std::vector<Json> load_documents(const DatasetConfig& dataset, const std::string& split, const FetchDataset& fetch) {
  std::vector<fs::path> files;
  if (!dataset.data_files.is_null())
    files = listed_files(dataset, split);
  else if (auto folder = dataset_folder(dataset, fetch); fs::is_regular_file(folder))
    files = {folder};
  else
    files = split_files(folder, dataset.subset, split);
  std::vector<Json> documents;
  for (const auto& file : files) add_rows(file, documents);
  for (const auto& document : documents)
    if (!document.is_object())
      throw UserError(ExitCode::bad_data, fmt::format("{}: found {}; expected objects", files[0].string(), document.type_name()));
  if (documents.empty())
    throw UserError(ExitCode::bad_data,
                    fmt::format("{}: the split {} has no documents", files.empty() ? dataset.path : files[0].string(), split));
  return documents;
}

void process_documents(const Task& task, std::vector<Json>& documents) {
  if (task.process_docs != "gpqa") return;
  data::PythonRandom random(0);  // lm-evaluation-harness's seed of Python's own generator
  for (auto& document : documents) shuffle_gpqa_choices(document, random);
}

std::vector<std::string> list_subsets(const fs::path& folder, const std::string& split) {
  std::set<std::string> names;
  for (const auto& file : files_of_split(folder, split)) names.insert(subset_of(file, folder, split));
  if (names.empty())
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file() && data::is_dataset_file(entry.path())) names.insert(entry.path().stem().string());
  names.erase("");
  names.erase("all");
  return {names.begin(), names.end()};
}

}  // namespace hone::eval

#include "hone/data/datasets/dataset_info.h"

#include <algorithm>
#include <span>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/edit_distance.h"
#include "hone/data/datasets/registry_scope.h"

namespace hone::data {
namespace {

// Reads typed members of an object and records the first with the wrong type.
class MemberReader {
 public:
  explicit MemberReader(const Json& object) : object_(object) {}

  void text(const char* key, std::string& out) {
    if (auto value = find(key); value && expect(value->is_string(), key, "a string")) out = value->get<std::string>();
  }
  void flag(const char* key, bool& out) {
    if (auto value = find(key); value && expect(value->is_boolean(), key, "true or false")) out = value->get<bool>();
  }
  void count(const char* key, std::optional<int64_t>& out) {
    auto value = find(key);
    if (value && expect(value->is_number_integer() && value->get<int64_t>() > 0, key, "a positive number"))
      out = value->get<int64_t>();
  }
  void texts(const char* key, std::vector<std::string>& out) {
    auto value = find(key);
    if (!value) return;
    if (value->is_string()) return void(out = {value->get<std::string>()});
    bool fine = value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& item) { return item.is_string(); });
    if (expect(fine, key, "a list of strings")) out = value->get<std::vector<std::string>>();
  }
  void map(const char* key, std::map<std::string, std::string>& out) {
    auto value = find(key);
    if (!value || !expect(value->is_object(), key, "an object")) return;
    for (const auto& [name, target] : value->items())
      if (expect(target.is_string(), key, "names of columns")) out[name] = target.get<std::string>();
  }
  const Json* find(const char* key) const {
    auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool expect(bool fine, const char* key, const char* expected) {
    if (!fine && problem_.empty()) problem_ = fmt::format("\"{}\" is {}; expected {}", key, find(key)->type_name(), expected);
    return fine;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json& object_;
  std::string problem_;
};

// "file_sha1" is in files of older releases; a key with "_" before it is a comment.
constexpr std::string_view kEntryKeys[] = {"file_name",  "hf_hub_url", "ms_hub_url", "om_hub_url", "script_url",
                                           "subset",     "split",      "folder",     "ranking",    "cloud_file_name",
                                           "formatting", "columns",    "tags",       "file_sha1",  "num_samples"};

// Misspelled keys: LLaMA-Factory ignores what it does not know, and the dataset is then read in another way than intended.
void note_unread(const Json& object, const std::string& of, std::span<const std::string_view> known,
                 std::vector<std::string>& unread) {
  for (const auto& item : object.items()) {
    if (item.key().starts_with('_') || std::ranges::find(known, item.key()) != known.end()) continue;
    const auto nearest = nearest_word(item.key(), known);
    unread.push_back(fmt::format("\"{}\"{} is not read{}", item.key(), of,
                                 nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
  }
}

// All or nothing: if "columns" (or "tags") is given, columns that it does not list are unset.
void read_names(MemberReader& entry, const char* key, std::initializer_list<std::pair<const char*, std::string*>> names,
                std::vector<std::string>& unread) {
  const Json* given = entry.find(key);
  if (!given || !entry.expect(given->is_object(), key, "an object")) return;
  std::vector<std::string_view> known;
  for (const auto& name : names) known.push_back(name.first);
  note_unread(*given, fmt::format(" of \"{}\"", key), known, unread);
  for (auto [name, target] : names) {
    auto found = given->find(name);
    bool set = found != given->end() && !found->is_null();
    if (set && !entry.expect(found->is_string(), key, "names of columns")) return;
    *target = set ? found->get<std::string>() : "";
  }
}

}  // namespace

Result<FactoryEntry> parse_factory_entry(const std::string& name, const Json& object) {
  if (!object.is_object()) return error("entry \"{}\" is {}; expected an object", name, object.type_name());
  FactoryEntry entry{.name = name};
  MemberReader reader(object);
  auto& format = entry.format;
  std::string formatting = "alpaca", script, cloud;
  reader.text("file_name", entry.file_name);
  reader.text("hf_hub_url", entry.hf_id);
  reader.text("ms_hub_url", entry.ms_id);
  reader.text("script_url", script);
  reader.text("cloud_file_name", cloud);
  reader.text("subset", entry.subset);
  reader.text("split", entry.split);
  reader.text("folder", entry.folder);
  reader.count("num_samples", entry.num_samples);
  reader.text("formatting", formatting);
  reader.flag("ranking", format.ranking);
  read_names(reader, "columns",
             {{"prompt", &format.prompt},
              {"query", &format.query},
              {"response", &format.response},
              {"history", &format.history},
              {"messages", &format.messages},
              {"system", &format.system},
              {"tools", &format.tools},
              {"images", &format.images},
              {"videos", &format.videos},
              {"audios", &format.audios},
              {"chosen", &format.chosen},
              {"rejected", &format.rejected},
              {"kto_tag", &format.kto_tag}},
             entry.unread);
  read_names(reader, "tags",
             {{"role_tag", &format.role_tag},
              {"content_tag", &format.content_tag},
              {"user_tag", &format.user_tag},
              {"assistant_tag", &format.assistant_tag},
              {"observation_tag", &format.observation_tag},
              {"function_tag", &format.function_tag},
              {"system_tag", &format.system_tag}},
             entry.unread);
  note_unread(object, "", kEntryKeys, entry.unread);
  if (!reader.problem().empty()) return error("entry \"{}\": {}", name, reader.problem());
  using Formatting = FactoryFormatOptions::Formatting;
  if (formatting == "alpaca")
    format.formatting = Formatting::alpaca;
  else if (formatting == "sharegpt")
    format.formatting = Formatting::sharegpt;
  else if (formatting == "openai")
    format.formatting = Formatting::openai;
  else
    return error("entry \"{}\": formatting is \"{}\"; expected alpaca, sharegpt or openai", name, formatting);
  if (entry.file_name.empty()) entry.file_name = script;
  if (!cloud.empty())
    return error("entry \"{}\": cloud_file_name is not read; expected file_name (download {} first)", name, cloud);
  if (entry.file_name.empty() && entry.hf_id.empty() && entry.ms_id.empty())
    return error("entry \"{}\" has no file_name, hf_hub_url or ms_hub_url", name);
  return entry;
}

FactoryEntry factory_entry(const Json& info, const std::string& name, const std::string& where) {
  auto found = info.find(name);
  if (found != info.end()) {
    auto entry = parse_factory_entry(name, *found).or_throw(ExitCode::bad_data, where);
    for (const auto& key : entry.unread) log::warn_once(fmt::format("{}: entry \"{}\": {}", where, name, key));
    return entry;
  }
  if (!std::filesystem::exists(where))
    throw UserError(ExitCode::usage, fmt::format("dataset \"{}\" is not a file, and there is no {}", name, where),
                    "check `dataset_dir`, or give a path");
  std::vector<std::string_view> names;
  for (const auto& entry : info.get_ref<const Json::object_t&>()) names.push_back(entry.first);
  const auto nearest = nearest_word(name, names);
  throw UserError(ExitCode::usage, fmt::format("dataset \"{}\" is neither a file nor an entry of {}", name, where),
                  nearest.empty() ? "add an entry for it, or give a path" : fmt::format("did you mean \"{}\"?", nearest));
}

Json read_factory_info(const std::filesystem::path& dataset_dir) {
  auto path = dataset_dir / "dataset_info.json";
  if (!std::filesystem::exists(path)) return Json::object();
  auto info = parse_json(read_file(path)).or_throw(ExitCode::bad_data, path.string());
  if (!info.is_object())
    throw UserError(ExitCode::bad_data, fmt::format("{} is {}; expected an object of entries", path.string(), info.type_name()));
  return info;
}

namespace {

std::optional<Error> read_subsets(const Json& list, std::vector<SwiftSubset>& out) {
  if (!list.is_array()) return Error{"\"subsets\" is not a list; expected names or objects"};
  for (const auto& item : list) {
    SwiftSubset subset;
    if (item.is_string()) {
      subset.name = subset.subset = item.get<std::string>();
    } else if (item.is_object()) {
      MemberReader reader(item);
      reader.text("subset", subset.subset);
      subset.name = subset.subset;
      reader.text("name", subset.name);
      reader.texts("split", subset.split);
      reader.flag("is_weak_subset", subset.weak);
      if (reader.find("columns")) reader.map("columns", subset.columns.emplace());
      if (!reader.problem().empty()) return Error{"subset: " + reader.problem()};
    } else {
      return Error{"\"subsets\" holds neither names nor objects"};
    }
    out.push_back(std::move(subset));
  }
  return std::nullopt;
}

void read_messages_options(const Json& object, SwiftFormatOptions& format, std::string& problem) {
  MemberReader reader(object);
  format.messages_only = true;
  reader.texts("role_key", format.role_keys);
  reader.texts("content_key", format.content_keys);
  reader.texts("user_role", format.user_roles);
  reader.texts("assistant_role", format.assistant_roles);
  reader.text("system_role", format.system_role);
  reader.text("inner_key", format.inner_key);
  problem = reader.problem();
}

}  // namespace

Result<SwiftEntry> parse_swift_entry(const Json& object, const std::filesystem::path& base_dir) {
  if (!object.is_object()) return error("an entry is {}; expected an object", object.type_name());
  SwiftEntry entry;
  MemberReader reader(object);
  reader.text("ms_dataset_id", entry.ms_id);
  reader.text("hf_dataset_id", entry.hf_id);
  reader.text("dataset_path", entry.path);
  reader.text("dataset_name", entry.name);
  reader.texts("split", entry.split);
  reader.map("columns", entry.format.info_columns);
  std::string problem;
  if (auto options = reader.find("messages")) {
    if (reader.expect(options->is_object(), "messages", "an object")) read_messages_options(*options, entry.format, problem);
  }
  if (auto list = reader.find("subsets"))
    if (auto bad = read_subsets(*list, entry.subsets)) return *bad;
  if (!reader.problem().empty()) return Error{reader.problem()};
  if (!problem.empty()) return Error{"messages: " + problem};
  if (entry.path.empty() && entry.ms_id.empty() && entry.hf_id.empty())
    return Error{"an entry names no dataset_path, ms_dataset_id or hf_dataset_id"};
  if (!entry.path.empty()) entry.path = (base_dir / entry.path).lexically_normal().string();
  return entry;
}

std::vector<SwiftEntry> read_swift_info(const std::vector<std::string>& sources) {
  std::vector<SwiftEntry> entries;
  for (const auto& source : sources) {
    std::error_code ignored;  // inline JSON exceeds the maximum length of a path
    bool is_file = std::filesystem::is_regular_file(source, ignored);
    std::string where = is_file ? source : "`custom_dataset_info`";
    if (!is_file && source.find_first_of("[{") == source.npos)
      throw UserError(ExitCode::bad_data, fmt::format("`custom_dataset_info` {}: there is no such file", source),
                      "give a JSON file or an inline JSON list");
    auto base = is_file ? std::filesystem::absolute(source).parent_path() : std::filesystem::current_path();
    auto list = parse_json(is_file ? read_file(source) : source)
                    .or_throw(ExitCode::bad_data, where, "give a JSON file or an inline JSON list");
    if (!list.is_array())
      throw UserError(ExitCode::bad_data, fmt::format("{} is {}; expected a list of entries", where, list.type_name()));
    for (const auto& object : list) {
      entries.push_back(parse_swift_entry(object, base).or_throw(ExitCode::bad_data, where));
      const auto& path = entries.back().path;
      if (is_file && !path.empty()) refuse_outside(source, path, path);
    }
  }
  return entries;
}

const SwiftEntry* find_swift_entry(const std::vector<SwiftEntry>& entries, const std::string& word) {
  auto last_part = [](std::string text) {
    while (text.ends_with('/')) text.pop_back();
    return text.substr(text.rfind('/') + 1);
  };
  for (const auto& entry : entries)
    if (word == entry.name || word == entry.ms_id || word == entry.hf_id || word == entry.path) return &entry;
  for (const auto& entry : entries)
    for (const auto& id : {entry.path, entry.ms_id, entry.hf_id})
      if (!id.empty() && last_part(id) == last_part(word)) return &entry;
  return nullptr;
}

}  // namespace hone::data

#include "hone/tinker/twinkle/dataset.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "hone/base/file.h"
#include "hone/base/stable_hash.h"
#include "hone/data/readers/row_reader.h"
#include "hone/tinker/twinkle/dataset_rows.h"
#include "hone/tinker/twinkle/inputs.h"
#include "hone/tinker/twinkle/preprocessors.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// The client sends its objects as JSON in a string.
Json object_in(const Json& value, const char* what) {
  Json object = value;
  if (value.is_string())
    if (auto parsed = parse_json(value.get<std::string>())) object = std::move(*parsed);
  if (!object.is_object()) throw RequestError(fmt::format("{}: expected an object", what));
  return object;
}

// Settings without effect here: rows are mapped in memory at once.
constexpr const char* kHowToMap[] = {"batched", "num_proc", "load_from_cache_file", "batch_size", "timeout", "desc"};

std::string id_of(const Json& meta) {
  if (has_field(meta, "data"))
    return std::to_string(stable_hash(meta["data"].dump(-1, ' ', true, Json::error_handler_t::replace)));
  return text_field(meta, "dataset_id", "") + ":" + text_field(meta, "subset_name", "default") + ":" +
         text_field(meta, "split", "train");
}

}  // namespace

void require_known(const Json& arguments, std::initializer_list<std::string_view> known, const char* where) {
  for (const auto& [name, value] : arguments.items())
    if (!std::ranges::count(known, name) && !std::ranges::count(kHowToMap, name))
      throw RequestError(fmt::format("{} is not a setting of {} that this server knows", name, where));
}

TwinkleDataset::TwinkleDataset(const serve::ServedModel& served, std::filesystem::path root, const Json& arguments)
    : served_(served), root_(std::move(root)) {
  require_known(arguments, {"dataset_meta", "streaming"}, "Dataset");
  if (flag_field(arguments, "streaming", false)) throw RequestError("streaming datasets are not supported by this server");
  if (has_field(arguments, "dataset_meta")) add(arguments["dataset_meta"]);
}

const std::vector<Json>& TwinkleDataset::rows() const {
  if (mixed_) return *mixed_;
  if (parts_.size() != 1) throw RequestError(parts_.empty() ? "the dataset has no rows yet" : "call mix_dataset first");
  return parts_.front().rows;
}

std::vector<Json> TwinkleDataset::read(const Json& meta) const {
  if (has_field(meta, "data")) return rows_of_data(meta["data"]);
  const auto id = required_text(meta, "dataset_id");
  if (root_.empty())
    throw RequestError(
        "dataset_id: this server reads no files for clients; send rows (DatasetMeta(data=…)), or start it with `dataset_root`");
  std::error_code missing;
  const auto root = std::filesystem::canonical(root_), file = std::filesystem::canonical(root_ / id, missing);
  if (missing || !is_inside(root, file) || !std::filesystem::is_regular_file(file))
    throw RequestError(fmt::format("dataset_id: there is no file {} in the server's folder of datasets", id));
  CountedRows rows(bytes_);
  try {
    const auto reader = data::open_rows(file);
    if (reader->size() > static_cast<int64_t>(kMostRows))
      throw RequestError(fmt::format("{} has {} rows; this server holds {}", id, reader->size(), kMostRows));
    for (int64_t i = 0; i < reader->size(); ++i) {
      auto row = reader->at(i);
      if (!row) throw RequestError(fmt::format("{}, row {} cannot be read", id, i));
      rows.push_back(std::move(row->fields));
    }
  } catch (const UserError&) {  // its text contains local paths
    throw RequestError(fmt::format("{} is not a dataset file", id));
  }
  return rows.take();
}

void TwinkleDataset::add(const Json& given) {
  const auto meta = object_in(given, "dataset_meta");
  auto rows = read(meta);
  if (has_field(meta, "data_slice")) rows = sliced(rows, meta["data_slice"], bytes_);
  CountedRows counted(bytes_);
  for (const auto& row : rows) counted.count(row);
  bytes_ = counted.bytes();
  parts_.push_back({id_of(meta), std::move(rows)});
}

// The subset that dataset_meta names, or everything.
std::vector<Json>& TwinkleDataset::part(const Json& arguments) {
  if (mixed_) return *mixed_;
  if (!has_field(arguments, "dataset_meta")) {
    rows();
    return parts_.front().rows;
  }
  const auto id = id_of(object_in(arguments["dataset_meta"], "dataset_meta"));
  const auto found = std::ranges::find(parts_, id, &Part::id);
  if (found == parts_.end()) throw RequestError("dataset_meta: no dataset of it was added");
  return found->rows;
}

void TwinkleDataset::set_template(const Json& arguments) {
  require_known(arguments,
                {"template_func", "model_id", "max_length", "truncation_strategy", "enable_thinking", "use_chat_template"},
                "set_template");
  for (const char* name : {"enable_thinking", "use_chat_template"})
    if (!flag_field(arguments, name, true)) throw RequestError(fmt::format("{}=False is not supported by this server", name));
  auto model = text_field(arguments, "model_id", served_.name);
  if (const auto scheme = model.find("://"); scheme != model.npos) model = model.substr(scheme + 3);
  if (model != served_.name) throw RequestError(fmt::format("model_id is \"{}\"; this server has \"{}\"", model, served_.name));
  max_length_ = integer_field(arguments, "max_length", max_length_, 1);
  truncation_ = text_field(arguments, "truncation_strategy", "raise");
  if (truncation_ != "raise" && truncation_ != "left" && truncation_ != "right" && truncation_ != "delete")
    throw RequestError(fmt::format("truncation_strategy is \"{}\"; expected raise, left, right or delete", truncation_));
  has_template_ = true;
}

void TwinkleDataset::mix(bool interleave) {
  if (parts_.size() < 2) return;
  CountedRows all(bytes_);
  if (!interleave) {
    for (const auto& part : parts_)
      for (const auto& row : part.rows) all.push_back(row);
  } else {  // alternating, until the first is exhausted
    size_t shortest = parts_.front().rows.size();
    for (const auto& part : parts_) shortest = std::min(shortest, part.rows.size());
    for (size_t i = 0; i < shortest; ++i)
      for (const auto& part : parts_) all.push_back(part.rows[i]);
  }
  mixed_ = all.take();
}

// None: too long, to be dropped.
std::optional<Json> TwinkleDataset::encoded(const Json& row, bool add_generation_prompt) const {
  TwinkleRow tokens;
  if (add_generation_prompt) {
    const auto prompt = prompts(row, served_).front();
    tokens = {{prompt.begin(), prompt.end()}, std::vector<int64_t>(prompt.size(), data::kIgnore)};
  } else {
    tokens = training_rows(row, served_).front();
  }
  const auto length = static_cast<int64_t>(tokens.ids.size());
  if (length > max_length_) {
    if (truncation_ == "delete") return std::nullopt;
    if (truncation_ == "raise") throw RequestError(fmt::format("a row has {} tokens; max_length is {}", length, max_length_));
    for (auto* values : {&tokens.ids, &tokens.targets}) {
      if (truncation_ == "left") values->erase(values->begin(), values->end() - max_length_);
      values->resize(static_cast<size_t>(max_length_));
    }
    tokens.targets.back() = data::kIgnore;  // later messages are dropped
  }
  std::vector<int64_t> positions(tokens.ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  Json feature = row;
  feature.update({{"input_ids", tokens.ids},
                  {"labels", tokens.targets},
                  {"attention_mask", std::vector<int64_t>(tokens.ids.size(), 1)},
                  {"position_ids", positions},
                  {"length", tokens.ids.size()}});
  return feature;
}

void TwinkleDataset::encode(const Json& arguments) {
  require_known(arguments, {"add_generation_prompt", "remove_columns"}, "encode");
  if (!has_template_) throw RequestError("encode: call set_template first");
  const bool add_generation_prompt = flag_field(arguments, "add_generation_prompt", false);
  const auto removed = arguments.value("remove_columns", Json::array());
  CountedRows all(bytes_);
  for (const auto& row : rows()) {
    auto feature = encoded(row, add_generation_prompt);
    if (!feature) continue;
    for (const auto& name : removed)
      if (name.is_string()) feature->erase(name.get<std::string>());
    all.push_back(std::move(*feature));
  }
  (mixed_ ? *mixed_ : parts_.front().rows) = all.take();
}

Json TwinkleDataset::call(const std::string& function, const Json& arguments) {
  if (function == "__len__") return rows().size();
  if (function == "__getitem__") {
    auto index = required_integer(arguments, "idx", std::numeric_limits<int64_t>::min());
    const auto count = static_cast<int64_t>(rows().size());
    if (index < 0) index += count;
    if (index < 0 || index >= count) throw RequestError(fmt::format("idx {}: there are {} rows", index, count));
    return rows()[static_cast<size_t>(index)];
  }
  change(function, arguments);
  const auto all_bytes = [](const std::vector<Json>& rows) {
    return std::transform_reduce(rows.begin(), rows.end(), size_t{0}, std::plus(), bytes_in_memory);
  };
  size_t bytes = mixed_ ? all_bytes(*mixed_) : 0;
  for (const auto& each : parts_) bytes += all_bytes(each.rows);
  bytes_ = bytes;
  return nullptr;
}

void TwinkleDataset::change(const std::string& function, const Json& arguments) {
  if (function == "set_template") {
    set_template(arguments);
  } else if (function == "encode") {
    encode(arguments);
  } else if (function == "check") {  // rows that cannot be encoded are dropped
    if (!has_template_) throw RequestError("check: call set_template first");
    std::erase_if(part(arguments), [&](const Json& row) {
      try {
        return !encoded(row, false).has_value();
      } catch (const std::exception&) {
        return true;
      }
    });
  } else if (function == "map") {
    require_known(arguments, {"preprocess_func", "dataset_meta", "init_args"}, "map");
    const auto name = required_text(arguments, "preprocess_func");
    const auto args = has_field(arguments, "init_args") ? object_in(arguments["init_args"], "init_args") : Json::object();
    auto& rows = part(arguments);
    CountedRows mapped(bytes_);
    for (auto row : rows) {
      row.update(preprocessed(name, args, row));
      mapped.push_back(std::move(row));
    }
    rows = mapped.take();
  } else if (function == "add_dataset") {
    require_known(arguments, {"dataset_meta", "streaming"}, "add_dataset");
    add(arguments.value("dataset_meta", Json()));
  } else if (function == "mix_dataset") {
    mix(flag_field(arguments, "interleave", true));
  } else {
    throw RequestError(fmt::format("{} of a dataset is not supported by this server", function));
  }
}

}  // namespace hone::tinker

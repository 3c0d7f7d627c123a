// train_dataset of LLaMA-Factory's v1: a file, a hub id, or a YAML file of datasets by name.
#include "hone/base/error.h"
#include "hone/cli/factory_v1/v1_settings.h"

namespace hone::cli {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& found, const char* expected) {
  throw UserError(ExitCode::usage, fmt::format("dataset \"{}\": {}", name, found), expected);
}

// One entry as an argument of `dataset`. Rows are recognized by their columns, whatever the converter is called.
std::string dataset_word(const std::string& name, V1Settings entry) {
  auto word = v1_word(entry.take_or("path", ""));
  if (word.empty()) refuse(name, "it has no path", "expected a file or the id of a dataset on a hub");
  const auto source = v1_word(entry.take_or("source", "hf_hub")), split = v1_word(entry.take_or("split", "train"));
  if (source == "hf_hub")
    word = "hf::" + word + (split == "train" ? "" : ":" + split);
  else if (source != "local")
    refuse(name, "source is " + source, "expected local or hf_hub");
  if (const auto converter = v1_word(entry.take_or("converter", "alpaca"));
      converter != "alpaca" && converter != "sharegpt" && converter != "pair")
    refuse(name, "converter is " + converter, "expected alpaca, sharegpt or pair");
  if (entry.take_or("streaming", false) == true) refuse(name, "it is streamed", "leave streaming out: files are read row by row");
  const auto size = entry.take_or("size", nullptr), weight = entry.take_or("weight", 1.0);
  if (size.is_number() && weight.is_number())
    word += fmt::format("#{}", static_cast<int64_t>(size.get<double>() * weight.get<double>()));
  else if (weight != 1.0)
    refuse(name, "it has a weight and no size", "give size, the number of rows to draw");
  entry.refuse_rest();
  return word;
}

}  // namespace

std::string v1_datasets(const std::string& train_dataset, const SystemAccess& system) {
  if (!train_dataset.ends_with(".yaml")) return train_dataset;
  std::string words;
  for (auto& entry : read_entries(train_dataset, system.read_file(train_dataset))) {
    if (!entry.value.is_object()) refuse(entry.key, "it is " + v1_word(entry.value), "expected a mapping with a path");
    V1Settings settings(fmt::format("{}: {}.", train_dataset, entry.key), std::move(entry.value));
    words += (words.empty() ? "" : ",") + dataset_word(entry.key, std::move(settings));
  }
  return words;
}

}  // namespace hone::cli

// The built-in benchmarks, as settings of a task.
#pragma once
#include <span>
#include <string_view>

namespace hone::eval {

struct Benchmark {
  std::string_view name, dataset, settings;  // dataset: "id" or "id:subset"; empty: a folder must be given
  bool has_subjects = false;
  std::string_view only_subject = {};   // empty: all that the files have
  std::string_view split = {};          // empty: that of the settings
  std::string_view chat_settings = {};  // over the settings, in chats
  std::string_view base = {};           // settings shared with other benchmarks, which `settings` completes

  std::string_view own_subset() const {  // of the dataset; empty: none
    const auto colon = dataset.find(':');
    return colon == dataset.npos ? std::string_view() : dataset.substr(colon + 1);
  }
};

std::span<const Benchmark> benchmark_table();
// evalscope's copy on ModelScope with the same columns, "id" or "id:subset"; empty: the dataset's own name is used there, too.
std::string_view modelscope_dataset(std::string_view benchmark);

}  // namespace hone::eval

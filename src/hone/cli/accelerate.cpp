#include "hone/cli/accelerate.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "hone/base/json.h"

namespace hone::cli {
namespace {

constexpr std::array<std::string_view, 12> kBareOptions = {
    "--multi_gpu", "--cpu", "--mps",   "--tpu",       "--use_deepspeed", "--use_fsdp",
    "--quiet",     "-q",    "--debug", "--no_python", "--same_network",  "--dynamo_use_dynamic"};
// Options that set the number of processes, the devices, the precision and the sharding of the model.
constexpr std::array<std::string_view, 9> kKept = {"config_file",     "num_processes",   "num_machines",
                                                   "machine_rank",    "main_process_ip", "main_process_port",
                                                   "mixed_precision", "use_fsdp",        "cpu"};

bool is_script(std::string_view word) { return word.ends_with(".py"); }

template <class Container>
bool contains(const Container& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class LaunchLine {
 public:
  // Consumes the option at `i` and its value, if any; returns the index of the last argument consumed.
  size_t take(const std::vector<std::string>& words, size_t i) {
    std::string name = words[i].substr(std::min<size_t>(2, words[i].size())), value = "true";
    auto equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (!contains(kBareOptions, words[i]) && i + 1 < words.size()) {
      value = words[++i];
    }
    std::replace(name.begin(), name.end(), '-', '_');
    if (contains(kKept, name))
      settings_[name] = name == "use_fsdp" || name == "cpu" ? Json(true) : Json(value);
    else if (name.starts_with("fsdp_"))
      settings_["fsdp_config"][name] = value;
    return i;
  }
  std::vector<std::string> with(std::vector<std::string>::const_iterator begin,
                                std::vector<std::string>::const_iterator end) const {
    std::vector<std::string> words(begin, end);
    if (!settings_.empty()) words.push_back("accelerate_launch=" + settings_.dump());
    return words;
  }

 private:
  Json settings_ = Json::object();
};

}  // namespace

std::vector<std::string> unwrap_accelerate(const std::vector<std::string>& words) {
  LaunchLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    auto after = [&](size_t skipped) {
      return line.with(words.begin() + static_cast<long>(std::min(i + skipped, words.size())), words.end());
    };
    if (words[i] == "-m" || words[i] == "--module") {
      if (i + 1 < words.size()) return after(2);
      break;
    }
    if (is_script(words[i])) return after(1);
    if (words[i].starts_with("-")) i = line.take(words, i);
  }
  throw UserError(ExitCode::usage, "accelerate launch: no script in the command line",
                  "accelerate launch src/train.py train.yaml");
}

}  // namespace hone::cli

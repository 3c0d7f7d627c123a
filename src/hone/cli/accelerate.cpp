#include "hone/cli/accelerate.h"

#include <algorithm>
#include <string_view>

#include "hone/base/error.h"

namespace hone::cli {
namespace {

constexpr std::string_view kBareOptions[] = {"--multi_gpu", "--cpu", "--mps",   "--tpu",       "--use_deepspeed", "--use_fsdp",
                                             "--quiet",     "-q",    "--debug", "--no_python", "--same_network"};

bool is_script(std::string_view word) { return word.ends_with(".py"); }

}  // namespace

std::vector<std::string> unwrap_accelerate(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word == "-m" || word == "--module") {
      if (i + 1 < words.size()) return {words.begin() + static_cast<long>(i) + 2, words.end()};
      break;
    }
    if (is_script(word)) return {words.begin() + static_cast<long>(i) + 1, words.end()};
    bool bare = std::find(std::begin(kBareOptions), std::end(kBareOptions), word) != std::end(kBareOptions);
    if (word.starts_with("-") && !bare && word.find('=') == std::string::npos) ++i;
  }
  throw UserError(ExitCode::usage, "accelerate launch: no script in the command line",
                  "accelerate launch src/train.py train.yaml");
}

}  // namespace hone::cli

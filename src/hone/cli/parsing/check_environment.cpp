#include "hone/cli/parsing/check_environment.h"

#include <charconv>

namespace hone::cli {
namespace {

struct NumberRange {
  const char* variable;
  int64_t least, most;
};

constexpr int64_t kProcesses = 1 << 20, kPerNode = 4096, kLastPort = 65535, kSecondsOfAWeek = 7 * 24 * 3600;

constexpr NumberRange kRanges[] = {
    {"NPROC_PER_NODE", 1, kPerNode},
    {"NNODES", 1, kProcesses},
    {"MIN_NNODES", 0, kProcesses},
    {"MAX_NNODES", 1, kProcesses},
    {"NODE_RANK", 0, kProcesses - 1},
    {"WORLD_SIZE", 1, kProcesses},
    {"RANK", -1, kProcesses - 1},
    {"LOCAL_WORLD_SIZE", 1, kPerNode},
    {"LOCAL_RANK", -1, kPerNode - 1},
    {"MASTER_PORT", 0, kLastPort},
    {"MAX_RESTARTS", 0, kProcesses},
    {"API_PORT", 1, kLastPort},
    {"GRADIO_SERVER_PORT", 1, kLastPort},
    {"HF_HUB_DOWNLOAD_TIMEOUT", 1, kSecondsOfAWeek},
    {"MODELSCOPE_DOWNLOAD_TIMEOUT", 1, kSecondsOfAWeek},
    {"HONE_ELASTIC_WAIT", 0, kSecondsOfAWeek},
    {"MAX_POSITIVE_SAMPLES", 1, kProcesses},
    {"MAX_NEGATIVE_SAMPLES", 0, kProcesses},
    {"INFONCE_HARD_NEGATIVES", 0, kProcesses},
    {"LISTWISE_RERANKER_MIN_GROUP_SIZE", 1, kProcesses},
};

bool is_within(const std::string& text, const NumberRange& range) {
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && value >= range.least && value <= range.most;
}

}  // namespace

void check_environment_numbers(const SystemAccess& world) {
  for (const auto& range : kRanges) {
    auto text = world.environment(range.variable);
    if (!text || text->empty() || *text == "auto" || is_within(*text, range)) continue;
    throw UserError(ExitCode::usage, fmt::format("the environment variable {} is \"{}\"", range.variable, *text),
                    fmt::format("set it to an integer from {} to {}, or unset it", range.least, range.most));
  }
}

}  // namespace hone::cli

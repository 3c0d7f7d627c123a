#include "hone/cli/parsing/environment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <regex>
#include <string>

#include "hone/base/error.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/device/inventory.h"
#include "hone/parallel/launch/supervisor.h"

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

// The chips that torch_npu supports.
constexpr std::array kChips{"910A",     "910ProA",  "910PremiumA", "910ProB", "910B",     "910B1",    "910B2",
                            "910B2C",   "910B3",    "910B4",       "910B4-1", "910_9391", "910_9392", "910_9381",
                            "910_9382", "910_9372", "910_9362",    "310P1",   "310P2",    "310P3",    "310P4",
                            "310P5",    "310P7",    "310B1",       "310B2",   "310B3",    "310B4"};

[[noreturn]] void fail_emulation(const char* name, const std::string& value, const std::string& expected) {
  throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", name, value), expected);
}

void check_count(const char* name, int64_t most, const char* unit) {
  auto text = environment_value(name);
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = status == std::errc() && end == text.data() + text.size();
  if (!text.empty() && (!whole || value < 1 || value > most)) fail_emulation(name, text, fmt::format("1 to {} {}", most, unit));
}

void check_chip() {
  auto text = environment_value("HONE_EMULATED_SOC");
  auto chip = text.starts_with("Ascend") ? text.substr(6) : text;
  if (!text.empty() && std::ranges::find(kChips, chip) == kChips.end())
    fail_emulation("HONE_EMULATED_SOC", text, fmt::format("one of {}", fmt::join(kChips, ", ")));
}

void check_faults() {
  static const std::regex kFaults(
      "(kernel|lost|hccl)@[1-9][0-9]*(:[A-Za-z0-9]+)?(/[0-9]+)?"
      "(,(kernel|lost|hccl)@[1-9][0-9]*(:[A-Za-z0-9]+)?(/[0-9]+)?)*");
  auto text = environment_value("HONE_EMULATED_FAULT");
  if (!text.empty() && !std::regex_match(text, kFaults))
    fail_emulation("HONE_EMULATED_FAULT", text,
                   "kernel@120, kernel@5:aclnnMatmul, lost@200 or hccl@3, followed by /1 for rank 1 alone; several with commas");
}

}  // namespace

void check_environment_numbers(const SystemAccess& system) {
  for (const auto& range : kRanges) {
    auto text = system.environment(range.variable);
    if (!text || text->empty() || *text == "auto" || is_within(*text, range)) continue;
    throw UserError(ExitCode::usage, fmt::format("the environment variable {} is \"{}\"", range.variable, *text),
                    fmt::format("set it to an integer from {} to {}, or unset it", range.least, range.most));
  }
}

void check_emulated_machine() {
  check_count("HONE_EMULATED_NPUS", 32, "cards");  // torch_npu's maximum number of devices
  check_count("HONE_EMULATED_HBM", 1 << 20, "MiB");
  check_chip();
  check_faults();
}

Assignments variables_of(const Options& options) {
  const DistributedArguments distributed_args(options);
  const ModelArguments model_args(options);
  Assignments variables;
  if (model_args.model_kwargs.has_value())
    if (auto knobs = *model_args.model_kwargs; knobs.is_object())
      for (const auto& [name, value] : knobs.items()) {
        std::string variable = name;
        std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        variables.emplace_back(variable, show_value(value));
      }
  if (distributed_args.master_addr.has_value()) variables.emplace_back("MASTER_ADDR", *distributed_args.master_addr);
  if (distributed_args.master_port.has_value()) variables.emplace_back("MASTER_PORT", distributed_args.master_port.text());
  if (distributed_args.local_rank.exists() && *distributed_args.local_rank >= 0)
    variables.emplace_back("LOCAL_RANK", distributed_args.local_rank.text());
  return variables;
}

std::string environment_value(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

std::optional<bool> environment_flag(const SystemAccess& system, const std::string& variable) {
  static constexpr Option kFlag("flag", Flag, "", "");
  const auto value = read_value(kFlag, Json(system.environment(variable).value_or("")));
  return value && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

int processes_of_environment(const SystemAccess& system) {
  const auto count = [&](const char* name) { return std::max(1, std::atoi(system.environment(name).value_or("1").c_str())); };
  return count("NPROC_PER_NODE") * count("NNODES");
}

bool is_reporting_process() {
  const char* rank = std::getenv("RANK");
  return !parallel::is_supervised() && !(rank && std::atoi(rank) > 0);
}

std::string absent_family(const SystemAccess& system) {
  constexpr std::pair<const char*, std::string_view> kFamilies[] = {{"ASCEND_RT_VISIBLE_DEVICES", "npu"},
                                                                    {"CUDA_VISIBLE_DEVICES", "cuda"}};
  for (const auto& [variable, family] : kFamilies) {
    auto value = system.environment(variable);
    if (!value || value->empty() || *value == "-1") continue;
    auto devices = device::inventory();
    auto is_of = [&](const device::DeviceRecord& d) { return d.name.starts_with(family); };
    if (std::ranges::any_of(devices, is_of)) continue;
    auto last = devices.back().name;
    return fmt::format("{} is set, and there is no such device here: running on {}", variable, last.substr(0, last.find(':')));
  }
  return "";
}

}  // namespace hone::cli

#include "hone/parallel/launch/world.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "hone/base/error.h"
#include "hone/base/usable_cores.h"
#include "hone/parallel/launch/rank_files.h"

namespace hone::parallel {
namespace {

std::string word(const char* name, const std::string& fallback = "") {
  const char* text = std::getenv(name);
  return text && *text ? text : fallback;
}

std::optional<int> parse_number(const std::string& name, const std::string& text) {
  if (text.empty() || text == "auto") return {};
  int value;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected an integer", name, text));
  return value;
}

std::optional<int> number(const char* name) { return parse_number(name, word(name)); }

std::optional<int> port_in(const std::string& name, const std::string& text) {
  auto port = parse_number(name, text);
  if (port > 65535) throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected a port, 1 to 65535", name, text));
  return port;
}

// "node[3-7,9]" or "node3,node4": the first host.
std::string first_slurm_host(const std::string& list) {
  auto bracket = list.find('[');
  auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  auto end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// SLURM_STEP_TASKS_PER_NODE is "2", or "2(x3),1": the task counts of the nodes in order.
int slurm_local_size(int tasks) {
  auto counts = word("SLURM_STEP_TASKS_PER_NODE", word("SLURM_TASKS_PER_NODE", ""));
  int node = number("SLURM_NODEID").value_or(0), seen = 0;
  for (size_t begin = 0; begin < counts.size();) {
    auto end = std::min(counts.find(',', begin), counts.size());
    auto part = counts.substr(begin, end - begin);
    auto times = part.find("(x");
    seen += times == std::string::npos ? 1 : std::atoi(part.c_str() + times + 2);
    if (node < seen) return std::max(1, std::atoi(part.c_str()));
    begin = end + 1;
  }
  return tasks;
}

}  // namespace

World world_from_environment() {
  World world;
  world.master_address = word("MASTER_ADDR", world.master_address);
  world.master_port = port_in("MASTER_PORT", word("MASTER_PORT")).value_or(world.master_port);
  if (auto size = number("WORLD_SIZE")) {
    world.launched = true;
    world.has_external_store = word("TORCHELASTIC_USE_AGENT_STORE") == "True";
    world.attempt = number("TORCHELASTIC_RESTART_COUNT").value_or(0);
    world.size = *size;
    world.rank = number("RANK").value_or(0);
    world.local_rank = number("LOCAL_RANK").value_or(world.rank);
    world.local_size = number("LOCAL_WORLD_SIZE").value_or(world.size);
  } else if (auto tasks = number("SLURM_NTASKS"); tasks && number("SLURM_PROCID")) {
    world.size = *tasks;
    world.rank = *number("SLURM_PROCID");
    world.local_rank = number("SLURM_LOCALID").value_or(0);
    world.local_size = slurm_local_size(world.size);
    if (!std::getenv("MASTER_ADDR"))
      world.master_address = first_slurm_host(word("SLURM_STEP_NODELIST", word("SLURM_JOB_NODELIST", "127.0.0.1")));
    // Jobs on the same host must not share a port.
    if (!std::getenv("MASTER_PORT")) world.master_port = 20000 + number("SLURM_JOB_ID").value_or(0) % 20000;
  }
  if (world.size < 1 || world.rank >= world.size)
    throw UserError(ExitCode::usage, fmt::format("rank {} of {}; expected a rank below WORLD_SIZE", world.rank, world.size),
                    "each process of a run needs its own RANK from 0 to WORLD_SIZE - 1");
  return world;
}

LaunchConfig launch_from_environment(const std::map<std::string, std::string>& otherwise) {
  auto text = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (auto value = word(name); !value.empty()) return value;
    auto other = otherwise.find(*names.begin());
    return other == otherwise.end() ? std::string() : other->second;
  };
  auto count = [&](std::initializer_list<const char*> names) { return parse_number(*names.begin(), text(names)); };
  LaunchConfig launch;
  auto nodes = count({"NNODES", "MAX_NNODES", "PET_NNODES"});
  launch.processes = count({"NPROC_PER_NODE", "PET_NPROC_PER_NODE"}).value_or(nodes ? 1 : 0);
  launch.nodes = nodes.value_or(1);
  launch.node_rank = count({"NODE_RANK", "PET_NODE_RANK"}).value_or(0);
  auto master = text({"MASTER_ADDR", "PET_MASTER_ADDR"});
  if (!master.empty()) launch.master_address = master;
  launch.min_nodes = number("MIN_NNODES").value_or(0);
  launch.elastic_wait = number("HONE_ELASTIC_WAIT").value_or(30);
  launch.master_port = port_in("MASTER_PORT", text({"MASTER_PORT", "PET_MASTER_PORT"})).value_or(launch.nodes > 1 ? 29500 : 0);
  if (launch.node_rank >= launch.nodes)
    throw UserError(ExitCode::usage, fmt::format("NODE_RANK is {} and NNODES {}; expected a rank below the number of nodes",
                                                 launch.node_rank, launch.nodes));
  if (launch.nodes > 1 && master.empty())
    throw UserError(ExitCode::usage, "NNODES is above 1 and MASTER_ADDR is not set",
                    "set MASTER_ADDR to the address of the node with NODE_RANK=0");
  if (launch.min_nodes > launch.nodes)
    throw UserError(ExitCode::usage,
                    fmt::format("MIN_NNODES is {} and NNODES {}; expected at most as many", launch.min_nodes, launch.nodes));
  return launch;
}

bool is_launched_externally() {
  if (std::getenv(kSupervisedMark)) return true;
  if (number("PET_NPROC_PER_NODE").value_or(1) > 1) return false;
  return number("WORLD_SIZE").has_value() || (number("SLURM_PROCID") && number("SLURM_NTASKS").value_or(1) > 1);
}

int cores_per_rank(int ranks) {
  if (auto of_task = number("SLURM_CPUS_PER_TASK"); of_task && std::getenv("SLURM_PROCID")) return std::max(1, *of_task);
  return std::max(1, usable_cores() / std::max(1, ranks));
}

}  // namespace hone::parallel

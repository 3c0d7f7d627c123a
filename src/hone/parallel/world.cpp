#include "hone/parallel/world.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

std::optional<int> number(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return {};
  int value;
  auto [end, status] = std::from_chars(text, text + std::strlen(text), value);
  if (status != std::errc() || *end != '\0' || value < 0)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected a whole number", name, text));
  return value;
}

std::optional<int> first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = number(name)) return value;
  return {};
}

std::string word(const char* name, const std::string& fallback) {
  const char* text = std::getenv(name);
  return text && *text ? text : fallback;
}

// "node[3-7,9]" or "node3,node4": the first host.
std::string first_slurm_host(const std::string& list) {
  auto bracket = list.find('[');
  auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  auto end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

}  // namespace

World world_from_environment() {
  World world;
  world.master_address = word("MASTER_ADDR", world.master_address);
  world.master_port = number("MASTER_PORT").value_or(world.master_port);
  if (auto size = number("WORLD_SIZE")) {
    world.size = *size;
    world.rank = number("RANK").value_or(0);
    world.local_rank = number("LOCAL_RANK").value_or(world.rank);
    world.local_size = number("LOCAL_WORLD_SIZE").value_or(world.size);
  } else if (auto tasks = number("SLURM_NTASKS"); tasks && number("SLURM_PROCID")) {
    world.size = *tasks;
    world.rank = *number("SLURM_PROCID");
    world.local_rank = number("SLURM_LOCALID").value_or(0);
    world.local_size = first_of({"SLURM_NTASKS_PER_NODE"}).value_or(world.size);
    if (!std::getenv("MASTER_ADDR")) world.master_address = first_slurm_host(word("SLURM_STEP_NODELIST", word("SLURM_JOB_NODELIST", "127.0.0.1")));
    // Jobs that share a host must not share a port.
    if (!std::getenv("MASTER_PORT")) world.master_port = 20000 + number("SLURM_JOB_ID").value_or(0) % 20000;
  }
  if (world.size < 1 || world.rank >= world.size)
    throw UserError(ExitCode::usage, fmt::format("rank {} of {}; expected a rank below WORLD_SIZE", world.rank, world.size),
                    "each process of a run needs its own RANK from 0 to WORLD_SIZE - 1");
  return world;
}

Launch launch_from_environment() {
  Launch launch;
  auto nodes = number("NNODES");
  launch.processes = number("NPROC_PER_NODE").value_or(nodes ? 1 : 0);
  launch.nodes = nodes.value_or(1);
  launch.node_rank = number("NODE_RANK").value_or(0);
  launch.master_address = word("MASTER_ADDR", launch.master_address);
  launch.master_port = number("MASTER_PORT").value_or(launch.nodes > 1 ? 29500 : 0);
  if (launch.node_rank >= launch.nodes)
    throw UserError(ExitCode::usage, fmt::format("NODE_RANK is {} and NNODES {}; expected a rank below the number of nodes", launch.node_rank, launch.nodes));
  if (launch.nodes > 1 && !std::getenv("MASTER_ADDR"))
    throw UserError(ExitCode::usage, "NNODES is above 1 and MASTER_ADDR is not set", "set MASTER_ADDR to the address of the node with NODE_RANK=0");
  return launch;
}

}  // namespace hone::parallel

#include "hone/parallel/launch/rendezvous_round.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/parallel/launch/rendezvous.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;

c10::intrusive_ptr<c10d::Store> open_node_store(const LaunchConfig& launch) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.isServer = launch.node_rank == 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::minutes(5);
  return c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
}

// Node 0 keeps its store across attempts. The others reconnect:
// a disconnected node must not use a dead connection.
c10::intrusive_ptr<c10d::Store> node_store(const LaunchConfig& launch) {
  static c10::intrusive_ptr<c10d::Store> kept;
  if (launch.node_rank == 0) {
    if (!kept) kept = open_node_store(launch);
    return kept;
  }
  auto patience = std::chrono::milliseconds(static_cast<int64_t>(launch.elastic_wait * 1000));
  wait_for_master(fmt::format("node {}", launch.node_rank), launch.master_address, launch.master_port, patience);
  return open_node_store(launch);
}

std::string key(int64_t round, const std::string& what) { return fmt::format("round/{}/{}", round, what); }

// Node 0 closes a round when all nodes have joined, or on timeout if enough have.
std::vector<int> close_round(c10d::Store& store, const LaunchConfig& launch, int64_t round) {
  auto deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(launch.elastic_wait * 1000));
  int64_t joined = 1;
  while ((joined = store.add(key(round, "joined"), 0)) < launch.nodes && (Clock::now() < deadline || joined < launch.min_nodes))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::vector<int> nodes;
  for (int64_t i = 1; i <= joined; ++i) nodes.push_back(std::stoi(store.get_to_str(key(round, fmt::format("node-{}", i)))));
  std::sort(nodes.begin(), nodes.end());
  store.set(key(round, "nodes"), fmt::format("{}", fmt::join(nodes, " ")));
  return nodes;
}

std::vector<int> numbers_in(const std::string& text) {
  std::istringstream stream(text);
  std::vector<int> numbers;
  for (int number; stream >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

LaunchConfig agree_on_nodes(const LaunchConfig& launch, int attempt) {
  if (launch.min_nodes == 0 || launch.nodes == 1) return launch;
  try {
    auto connection = node_store(launch);
    auto& store = *connection;
    static int64_t last_round = 0;
    if (launch.node_rank == 0) store.set("round/open", std::to_string(attempt + 1));
    int64_t round = 0;
    while ((round = std::stoll(store.get_to_str("round/open"))) <= last_round)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    last_round = round;
    store.set(key(round, fmt::format("node-{}", store.add(key(round, "joined"), 1))), std::to_string(launch.node_rank));
    auto nodes = launch.node_rank == 0 ? close_round(store, launch, round) : numbers_in(store.get_to_str(key(round, "nodes")));
    auto own = std::find(nodes.begin(), nodes.end(), launch.node_rank);
    if (own == nodes.end())
      throw UserError(ExitCode::lost_peer,
                      fmt::format("node {} joined after round {} had started without it", launch.node_rank, round));
    auto agreed = launch;
    agreed.nodes = static_cast<int>(nodes.size());
    agreed.node_rank = static_cast<int>(own - nodes.begin());
    agreed.master_port = launch.master_port + 1 + static_cast<int>(round % 100);  // the supervisors keep their port
    if (agreed.nodes < launch.nodes) log::warning("continuing with {} of {} nodes", agreed.nodes, launch.nodes);
    return agreed;
  } catch (const c10::Error& cause) {
    throw UserError(ExitCode::lost_peer,
                    fmt::format("node {}: no response from node 0 at {}:{}: {}", launch.node_rank, launch.master_address,
                                launch.master_port, cause.what_without_backtrace()),
                    "an elastic launch needs node 0 all the time");
  }
}

}  // namespace hone::parallel

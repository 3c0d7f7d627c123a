#include "hone/device/npu/hccl.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>

#include <charconv>
#include <set>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/log.h"
#include "hone/device/npu/variables.h"

namespace hone::device::npu {
namespace {

struct OwnNetwork {
  std::set<std::string> interfaces, addresses;
};

OwnNetwork own_network() {
  OwnNetwork out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  for (auto* entry = list; entry; entry = entry->ifa_next) {
    out.interfaces.insert(entry->ifa_name);
    if (!entry->ifa_addr) continue;
    char text[INET6_ADDRSTRLEN] = "";
    bool four = entry->ifa_addr->sa_family == AF_INET, six = entry->ifa_addr->sa_family == AF_INET6;
    if (four) ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    if (six) ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr, text, sizeof text);
    if (four || six) out.addresses.insert(text);
  }
  ::freeifaddrs(list);
  return out;
}

void check_network() {
  auto network = own_network();
  if (auto address = variable("HCCL_IF_IP"); !address.empty()) {  // HCCL then ignores HCCL_SOCKET_IFNAME
    if (!network.addresses.contains(address))
      throw UserError(ExitCode::usage, fmt::format("HCCL_IF_IP is {}, which is not an address of this machine", address),
                      fmt::format("it has {}", fmt::join(network.addresses, ", ")));
    return;
  }
  auto pattern = variable("HCCL_SOCKET_IFNAME");
  if (pattern.empty()) return;
  for (const auto& interface : network.interfaces)
    if (interface_matches(pattern, interface)) return;
  throw UserError(
      ExitCode::usage, fmt::format("HCCL_SOCKET_IFNAME={} matches no network interface of this machine", pattern),
      fmt::format("it has {}; \"eth\" takes those whose names start so, \"=eth0\" that one, \"^\" in front all others",
                  fmt::join(network.interfaces, ", ")));
}

void check_seconds(const char* name, int64_t least, int64_t most) {
  auto text = variable(name);
  if (text.empty()) return;
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", name, text),
                    fmt::format("HCCL takes {} to {} seconds", least, most));
}

std::string text_field(const Json& object, const char* key) {
  bool there = object.is_object() && object.contains(key) && object[key].is_string();
  return there ? object[key].get<std::string>() : "";
}

// Ranks of a rank table of version 1.0: {"status", "server_list": [{"server_id", "device": [{"device_id", "rank_id"}]}]}.
std::set<int> table_ranks(const std::string& path, const Json& table) {
  auto bad = [&](const std::string& what) {
    return UserError(
        ExitCode::usage, fmt::format("RANK_TABLE_FILE={}: {}", path, what),
        "a rank table has status \"completed\" and in server_list each server's device list with a rank_id for every card");
  };
  if (text_field(table, "status") != "completed")
    throw bad("its status is not \"completed\"; the cluster is still writing it, or it is not a rank table");
  std::set<int> ranks;
  if (!table.contains("server_list") || !table["server_list"].is_array()) throw bad("it has no server_list");
  for (const auto& server : table["server_list"]) {
    if (!server.is_object() || !server.contains("device") || !server["device"].is_array())
      throw bad("a server has no device list");
    for (const auto& card : server["device"]) {
      auto text = text_field(card, "rank_id");
      int rank = -1;
      auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), rank);
      if (status != std::errc() || end != text.data() + text.size() || rank < 0) throw bad("a device has no rank_id in digits");
      if (!ranks.insert(rank).second) throw bad(fmt::format("rank {} is given twice", rank));
    }
  }
  return ranks;
}

// hone's communicators, including subgroups, are set up by their first rank and need no rank table. A table that contradicts the
// run is still an error.
void check_rank_table(int processes) {
  auto path = variable("RANK_TABLE_FILE");
  if (path.empty()) return;
  if (!fs::exists(path))
    throw UserError(ExitCode::usage, fmt::format("RANK_TABLE_FILE={} does not exist", path),
                    "give the path of the cluster's table, or unset it");
  auto table = parse_json(read_file(path));
  if (!table)
    throw UserError(ExitCode::usage, fmt::format("RANK_TABLE_FILE={}: {}", path, table.error()), "it must be a JSON file");
  auto ranks = table_ranks(path, *table);
  bool whole = ranks.size() == static_cast<size_t>(processes) && (ranks.empty() || *ranks.rbegin() == processes - 1);
  if (!whole)
    throw UserError(ExitCode::usage,
                    fmt::format("RANK_TABLE_FILE={} lists {} ranks, this run has {} processes", path, ranks.size(), processes),
                    "start one process per card of the table, or unset RANK_TABLE_FILE");
  unset("RANK_TABLE_FILE");
  log::info("{}: {} ranks, as this run has", path, ranks.size());
}

}  // namespace

bool interface_matches(const std::string& pattern, const std::string& interface) {
  bool others = pattern.starts_with("^"), exactly = pattern.substr(others).starts_with("=");
  auto names = pattern.substr(others + exactly) + ",";
  bool named = false;
  for (size_t start = 0, end; (end = names.find(',', start)) != names.npos; start = end + 1) {
    auto name = names.substr(start, end - start);
    named |= !name.empty() && (exactly ? interface == name : interface.starts_with(name));
  }
  return named != others;
}

void check_hccl_environment(int processes) {
  check_network();
  check_seconds("HCCL_CONNECT_TIMEOUT", 120, 7200);
  check_seconds("HCCL_EXEC_TIMEOUT", 0, 2147483647);
  check_rank_table(processes);
}

std::string describe_hccl_timeouts() {
  auto connect = variable("HCCL_CONNECT_TIMEOUT"), execute = variable("HCCL_EXEC_TIMEOUT");
  return fmt::format(
      "ranks wait {} s for each other to join (HCCL_CONNECT_TIMEOUT) and {} s inside a collective (HCCL_EXEC_TIMEOUT)",
      connect.empty() ? "120" : connect, execute.empty() ? "1836" : execute);
}

}  // namespace hone::device::npu

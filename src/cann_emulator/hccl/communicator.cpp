#include "cann_emulator/hccl/communicator.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace cann::hccl {
namespace {

std::chrono::milliseconds seconds_of(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return std::chrono::seconds(text && *text ? std::strtol(text, nullptr, 10) : otherwise);
}

std::string own_address() {
  const char* address = std::getenv("HCCL_IF_IP");
  return address && *address ? address : "127.0.0.1";
}

// HCCL_SOCKET_IFNAME=eth0 or "=eth0" selects one interface; for prefixes and exclusions Gloo selects the address itself.
std::shared_ptr<gloo::transport::Device> transport() {
  const char* text = std::getenv("HCCL_SOCKET_IFNAME");
  std::string name = text ? text : "";
  if (name.starts_with("=")) name = name.substr(1);
  bool one_interface =
      !name.empty() && name.find_first_of(",^") == name.npos && ::access(("/sys/class/net/" + name).c_str(), F_OK) == 0;
  return one_interface ? c10d::ProcessGroupGloo::createDeviceForInterface(name)
                       : c10d::ProcessGroupGloo::createDeviceForHostname(own_address());
}

// Stores that this process hosts, kept alive until it exits.
std::mutex mutex;
std::map<std::string, c10::intrusive_ptr<c10d::TCPStore>> served;

}  // namespace

RootInfo open_root() {
  static std::atomic<int> next = 0;
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.port = 0;
  options.waitWorkers = false;
  options.timeout = seconds_of("HCCL_CONNECT_TIMEOUT", 120);
  auto store = c10::make_intrusive<c10d::TCPStore>(own_address(), options);
  RootInfo info{};
  std::strncpy(info.host, own_address().c_str(), sizeof info.host - 1);
  std::snprintf(info.id, sizeof info.id, "%d-%d", ::getpid(), next++);
  info.port = store->getPort();
  std::lock_guard lock(mutex);
  served[info.id] = store;
  return info;
}

std::unique_ptr<Communicator> join(int size, const RootInfo& root, int rank) {
  auto out = std::make_unique<Communicator>();
  {
    std::lock_guard lock(mutex);
    if (auto own = served.find(root.id); own != served.end()) out->store = own->second;
  }
  if (!out->store) {
    c10d::TCPStoreOptions options;
    options.port = root.port;
    options.waitWorkers = false;
    options.timeout = seconds_of("HCCL_CONNECT_TIMEOUT", 120);
    out->store = c10::make_intrusive<c10d::TCPStore>(root.host, options);
  }
  out->rank = rank, out->size = size, out->name = std::string("hccl-") + root.id;
  auto options = c10d::ProcessGroupGloo::Options::create(seconds_of("HCCL_EXEC_TIMEOUT", 1836));
  options->devices.push_back(transport());
  out->store->setTimeout(seconds_of("HCCL_CONNECT_TIMEOUT", 120));
  out->group = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(out->name, out->store), rank,
                                                           size, options);
  return out;
}

}  // namespace cann::hccl

#include "hone/parallel/launch/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr int kSecondsForAName = 5;  // a cluster may publish a node's name some time after it starts

Addresses resolve(const std::string& host, int port, int kind) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = kind;
  int status = 0;
  for (int waited = 0; (status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) != 0; ++waited) {
    if (waited == kSecondsForAName) break;
    if (waited == 0) log::info("MASTER_ADDR \"{}\" cannot be resolved yet: trying for {} s", host, kSecondsForAName);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (status != 0)
    throw UserError(ExitCode::lost_peer, fmt::format("MASTER_ADDR \"{}\" cannot be resolved: {}", host, ::gai_strerror(status)),
                    "set MASTER_ADDR to the address of the node with NODE_RANK=0");
  return {found, ::freeaddrinfo};
}

bool accepts_connections(const std::string& host, int port) {
  auto addresses = resolve(host, port, SOCK_STREAM);
  for (auto* a = addresses.get(); a; a = a->ai_next) {
    int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    timeval limit{2, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool connected = ::connect(fd, a->ai_addr, a->ai_addrlen) == 0;
    ::close(fd);
    if (connected) return true;
  }
  return false;
}

// c10d would wait silently; a user should see within seconds that a rank is missing.
class Timeouts {
 public:
  Timeouts(std::string who, milliseconds limit) : who_(std::move(who)), end_(Clock::now() + limit) {}

  // Waits a moment; false after the time limit.
  bool waits_for(const std::string& whom) {
    if (Clock::now() > end_) return false;
    if (Clock::now() > next_notice_) {
      log::warning("{}: still waiting for {}", who_, whom);
      next_notice_ = Clock::now() + std::chrono::seconds(30);
    }
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, milliseconds(200));
    return true;
  }

 private:
  std::string who_;
  milliseconds pause_{5};
  Clock::time_point end_, next_notice_ = Clock::now() + std::chrono::seconds(5);
};

// Differs between programs built from different sources.
std::string program_print() {
  static const std::string print = fmt::format("{:016x}", std::hash<std::string>{}(read_file("/proc/self/exe")));
  return print;
}

std::string card_key(int rank) { return "hone/here/" + std::to_string(rank); }

void put_card(c10d::Store& store, const World& world) {
  try {
    store.set(card_key(world.rank), fmt::format("{} {}", world.size, program_print()));
  } catch (const std::exception&) {
    log::debug("rank {}: the master left during the rendezvous", world.rank);  // reading the cards gives the reason
  }
}

// Nothing if the rank does not arrive, or if rank 0, which hosts this store, has left because the cards differ.
std::optional<std::string> card_of(c10d::Store& store, int rank, Timeouts& patience) {
  try {
    while (!store.check({card_key(rank)}))
      if (!patience.waits_for(fmt::format("rank {}", rank))) return {};
    return store.get_to_str(card_key(rank));
  } catch (const std::exception&) {
    return {};
  }
}

void check_card(const std::string& card, int rank, const World& world) {
  auto space = card.find(' ');
  if (card.substr(0, space) != std::to_string(world.size))
    throw UserError(ExitCode::lost_peer,
                    fmt::format("rank {} was started as one of {} processes, rank {} as one of {}", rank, card.substr(0, space),
                                world.rank, world.size),
                    "start every node with the same NNODES and NPROC_PER_NODE");
  if (space == std::string::npos || card.substr(space + 1) != program_print())
    throw UserError(ExitCode::lost_peer, fmt::format("rank {} and rank {} run different builds of hone", rank, world.rank),
                    "install the same build on every node");
}

}  // namespace

void require_resolvable(const std::string& address) { resolve(address, 0, SOCK_STREAM); }

void wait_for_master(const std::string& who, const std::string& address, int port, milliseconds timeout) {
  Timeouts patience(who, timeout);
  while (!accepts_connections(address, port))
    if (!patience.waits_for(fmt::format("rank 0 at {}:{}", address, port)))
      throw UserError(ExitCode::lost_peer, fmt::format("{}: no response from rank 0 at {}:{}", who, address, port),
                      "check MASTER_ADDR and MASTER_PORT, that rank 0 was started, and that no firewall blocks the connection");
}

c10::intrusive_ptr<c10d::Store> open_store(const World& world, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.isServer = world.is_main() && !world.has_external_store;
  options.numWorkers = world.size;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (!world.is_main())
    wait_for_master(fmt::format("rank {} of {}", world.rank, world.size), world.master_address, world.master_port, timeout);
  try {
    return store_of_attempt(c10::make_intrusive<c10d::TCPStore>(world.master_address, options), world.attempt);
  } catch (const std::exception& cause) {
    throw UserError(ExitCode::lost_peer,
                    fmt::format("rank {} of {}: cannot {} {}:{}: {}", world.rank, world.size,
                                world.is_main() ? "listen at" : "reach the master at", world.master_address, world.master_port,
                                std::string(cause.what()).substr(0, 200)),
                    "check MASTER_ADDR and MASTER_PORT, and that nothing else uses the port");
  }
}

c10::intrusive_ptr<c10d::Store> store_of_attempt(c10::intrusive_ptr<c10d::Store> store, int attempt) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("attempt-{}", attempt), std::move(store));
}

void check_members(c10d::Store& store, const World& world, milliseconds timeout) {
  Timeouts patience(fmt::format("rank {} of {}", world.rank, world.size), timeout);
  put_card(store, world);
  for (int rank = 0; rank < world.size; ++rank) {
    auto card = card_of(store, rank, patience);
    if (!card)
      throw UserError(
          ExitCode::lost_peer,
          fmt::format("rank {} of {} did not connect to {}:{}, or disconnected", rank, world.size, world.master_address,
                      world.master_port),
          "check that every node was started with the same NNODES, MASTER_ADDR and MASTER_PORT and its own NODE_RANK");
    check_card(*card, rank, world);
  }
}

std::string local_address_for(const std::string& master, int port) {
  auto addresses = resolve(master, port, SOCK_DGRAM);
  int fd = ::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  bool known = fd >= 0 && ::connect(fd, addresses->ai_addr, addresses->ai_addrlen) == 0 &&
               ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  if (fd >= 0) ::close(fd);
  char text[NI_MAXHOST] = "127.0.0.1";
  if (known) ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

}  // namespace hone::parallel

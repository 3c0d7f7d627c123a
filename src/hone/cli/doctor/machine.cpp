// Memory, disks, limits, ports, terminal, and reachability of the hubs.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <future>
#include <thread>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/doctor/check.h"
#include "hone/device/inventory.h"
#include "hone/hub/locate.h"

namespace hone::cli::doctor {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

Finding memory_finding() {
  auto cpu = device::inventory().front();
  auto available = static_cast<double>(cpu.memory_total - cpu.memory_used);
  auto found = fmt::format("{} free of {}", format_bytes(available), format_bytes(static_cast<double>(cpu.memory_total)));
  if (available < 2 * kGiB)
    return {Severity::warning, "memory", found, "models beyond a few hundred million parameters will not fit"};
  return {Severity::good, "memory", found, ""};
}

// The nearest existing folder, since a cache may not exist yet.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && path != path.root_path() && !fs::exists(path, ignored)) path = path.parent_path();
  return path;
}

Finding disk_finding(const std::string& subject, const fs::path& folder) {
  auto place = existing_part(fs::absolute(folder));
  std::error_code error;
  auto space = fs::space(place, error);
  if (error) return {Severity::bad, subject, fmt::format("{}: {}", place.string(), error.message()), ""};
  bool writable = ::access(place.c_str(), W_OK) == 0;
  auto found = fmt::format("{} free in {}", format_bytes(static_cast<double>(space.available)), folder.string());
  if (!writable)
    return {Severity::warning, subject, found + ", read-only", "choose another folder with --output_dir or the cache's variable"};
  if (static_cast<double>(space.available) < 5 * kGiB)
    return {Severity::warning, subject, found, "a checkpoint of a 7B model takes 15 GiB; make room"};
  return {Severity::good, subject, found, ""};
}

Finding files_finding() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  auto found = fmt::format("{} open files at most", limit.rlim_cur);
  if (limit.rlim_cur < 1024) return {Severity::warning, "file limit", found, "ulimit -n 65536"};
  return {Severity::good, "file limit", found, ""};
}

Finding port_finding(int port, const char* purpose) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  auto subject = fmt::format("port {}", port);
  if (free) return {Severity::good, subject, fmt::format("free, for {}", purpose), ""};
  return {Severity::warning, subject, fmt::format("in use, needed for {}", purpose),
          port == 8000 ? "pass --port" : "set MASTER_PORT"};
}

Finding terminal_finding() {
  const char* locale = std::getenv("LC_ALL");
  if (!locale || !*locale) locale = std::getenv("LC_CTYPE");
  if (!locale || !*locale) locale = std::getenv("LANG");
  std::string name = locale ? locale : "";
  bool utf8 = name.find("UTF-8") != std::string::npos || name.find("utf8") != std::string::npos;
  auto found = fmt::format("{} columns, locale {}", terminal::columns(), name.empty() ? "unset" : name);
  if (!utf8) return {Severity::warning, "terminal", found, "export LANG=C.UTF-8 shows other scripts correctly"};
  return {Severity::good, "terminal", found, ""};
}

bool can_connect(const std::string& host, int timeout_ms) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), "443", &hints, &list) != 0) return false;
  bool connected = false;
  for (auto* at = list; at && !connected; at = at->ai_next) {
    int fd = ::socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0) continue;
    ::connect(fd, at->ai_addr, at->ai_addrlen);
    pollfd wait{fd, POLLOUT, 0};
    int failure = 1;
    socklen_t size = sizeof failure;
    connected = ::poll(&wait, 1, timeout_ms) == 1 && ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0;
    ::close(fd);
  }
  ::freeaddrinfo(list);
  return connected;
}

// Name resolution has no timeout of its own, so it runs on a thread that is abandoned if it takes too long.
bool reachable(const std::string& host) {
  constexpr int kTimeout = 3000;
  auto task = std::make_shared<std::packaged_task<bool()>>([host] { return can_connect(host, kTimeout); });
  auto result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  return result.wait_for(std::chrono::milliseconds(kTimeout)) == std::future_status::ready && result.get();
}

}  // namespace

Findings examine_machine() {
  return {memory_finding(),
          disk_finding("this folder", fs::current_path()),
          disk_finding("Hugging Face cache", hub::cache_of(hub::Site::hugging_face)),
          disk_finding("ModelScope cache", hub::cache_of(hub::Site::modelscope)),
          files_finding(),
          port_finding(8000, "serving"),
          port_finding(29500, "training on several devices"),
          terminal_finding()};
}

Findings examine_hubs(bool ask_network) {
  Findings out;
  for (const char* host : {"modelscope.cn", "huggingface.co"}) {
    if (!ask_network)
      out.push_back({Severity::absent, host, "not checked", "hone doctor --network true checks it"});
    else if (reachable(host))
      out.push_back({Severity::good, host, "can be reached", ""});
    else
      out.push_back({Severity::warning, host, "cannot be reached",
                     host == std::string_view("huggingface.co") ? "pass local folders, or set HF_ENDPOINT to a mirror"
                                                                : "pass local folders, or --use_hf true"});
  }
  return out;
}

}  // namespace hone::cli::doctor

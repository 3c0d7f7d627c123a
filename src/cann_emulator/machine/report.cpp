#include "cann_emulator/machine/report.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "cann_emulator/machine/settings.h"

namespace cann::report {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, long, std::less<>> launches, missing, fallbacks;
  std::array<long, 4> copies{}, bytes{};
  long waits = 0, queued_preparations = 0, queued_launches = 0;
  bool deterministic = false;

  ~Counts() { write(); }
  void write();
};

std::string object(const std::map<std::string, long, std::less<>>& counts) {
  std::string out = "{";
  for (const auto& [name, count] : counts) out += (out.size() > 1 ? ",\"" : "\"") + name + "\":" + std::to_string(count);
  return out + "}";
}

void Counts::write() {
  const auto& path = settings().report;
  if (path.empty() || (launches.empty() && missing.empty())) return;
  long total = 0;
  for (const auto& [name, count] : launches) total += count;
  std::string line = "{\"pid\":" + std::to_string(::getpid()) + ",\"launches\":" + std::to_string(total);
  constexpr std::array<const char*, 4> kKinds{"host_to_host", "host_to_device", "device_to_host", "device_to_device"};
  for (size_t i = 0; i < kKinds.size(); ++i) {
    line += std::string(",\"") + kKinds[i] + "\":" + std::to_string(copies[i]);
    line += std::string(",\"") + kKinds[i] + "_bytes\":" + std::to_string(bytes[i]);
  }
  line += ",\"queued_preparations\":" + std::to_string(queued_preparations) +
          ",\"queued_launches\":" + std::to_string(queued_launches) + ",\"deterministic\":" + (deterministic ? "true" : "false");
  line += ",\"waits\":" + std::to_string(waits) + ",\"operators\":" + object(launches) + ",\"missing\":" + object(missing) +
          ",\"fallbacks\":" + object(fallbacks) + "}\n";
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  [[maybe_unused]] auto written = ::write(file, line.data(), line.size());  // one write: lines of processes do not interleave
  ::close(file);
}

Counts& counts() {
  static Counts kCounts;
  return kCounts;
}

void add(std::map<std::string, long, std::less<>>& where, std::string_view name) {
  auto found = where.find(name);
  if (found == where.end()) found = where.emplace(name, 0).first;
  ++found->second;
}

// The name torch_npu gives to the threads of its task queue.
bool on_queue() {
  static thread_local const bool kQueue = [] {
    std::array<char, 16> name{};
    ::prctl(PR_GET_NAME, name.data());
    return std::string_view(name.data()) == "acl_thread";
  }();
  return kQueue;
}

}  // namespace

void prepared() {
  std::lock_guard lock(counts().mutex);
  counts().queued_preparations += on_queue();
}

void launched(std::string_view op) {
  std::lock_guard lock(counts().mutex);
  counts().queued_launches += on_queue();
  add(counts().launches, op);
}

void became_deterministic() {
  std::lock_guard lock(counts().mutex);
  counts().deterministic = true;
}

void missing(std::string_view what) {
  std::lock_guard lock(counts().mutex);
  add(counts().missing, what);
}

void fell_back(std::string_view op) {
  std::lock_guard lock(counts().mutex);
  add(counts().fallbacks, op);
}

void copied(int kind, size_t bytes) {
  if (kind < 0 || kind > 3) return;
  std::lock_guard lock(counts().mutex);
  ++counts().copies[static_cast<size_t>(kind)];
  counts().bytes[static_cast<size_t>(kind)] += static_cast<long>(bytes);
}

void waited() {
  std::lock_guard lock(counts().mutex);
  ++counts().waits;
}

}  // namespace cann::report

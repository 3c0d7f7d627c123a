#include "cann_emulator/machine/cards.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "cann_emulator/machine/settings.h"

namespace cann::cards {
namespace {

constexpr size_t kCards = 64, kProcesses = 64;
struct Table {
  std::array<std::array<Process, kProcesses>, kCards> rows;
};

// The table, locked between threads and, if it is a file, between processes.
class Locked {
 public:
  Locked() : guard_(mutex()) {
    if (file() >= 0) ::flock(file(), LOCK_EX);
  }
  ~Locked() {
    if (file() >= 0) ::flock(file(), LOCK_UN);
  }
  // Also clears rows of processes that have exited: a killed program leaves no memory allocated on any card.
  std::array<Process, kProcesses>& rows(int card) {
    auto& rows = table().rows[static_cast<size_t>(card) % kCards];
    for (auto& row : rows)
      if (row.pid && row.pid != ::getpid() && ::kill(row.pid, 0) < 0 && errno == ESRCH) row = {};
    return rows;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex kMutex;
    return kMutex;
  }
  static int file() {
    static const int kFile = [] {
      const auto& path = settings().state;
      int opened = path.empty() ? -1 : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (opened >= 0 && ::ftruncate(opened, sizeof(Table)) < 0) return -1;
      return opened;
    }();
    return kFile;
  }
  static Table& table() {
    static Table* kTable = [] {
      int flags = file() >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
      return static_cast<Table*>(::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, flags, file(), 0));
    }();
    return *kTable;
  }
  std::lock_guard<std::mutex> guard_;
};

}  // namespace

bool reserve_memory(int card, int64_t bytes) {
  Locked table;
  auto& rows = table.rows(card);
  int64_t total = 0;
  Process* own = nullptr;
  for (auto& row : rows) {
    total += row.bytes;
    if (row.pid == ::getpid()) own = &row;
  }
  if (bytes > 0 && total + bytes > settings().memory) return false;
  for (auto& row : rows)
    if (!own && row.pid == 0) own = &row;
  if (!own) return false;
  own->pid = ::getpid();
  own->bytes += bytes;
  return true;
}

int64_t used(int card) {
  int64_t total = 0;
  for (const auto& process : processes(card)) total += process.bytes;
  return total;
}

std::vector<Process> processes(int card) {
  Locked table;
  std::vector<Process> out;
  for (const auto& row : table.rows(card))
    if (row.pid) out.push_back(row);
  return out;
}

}  // namespace cann::cards

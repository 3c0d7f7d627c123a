#include "hone/parallel/collectives/heartbeat_monitor.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/parallel/launch/rank_files.h"
#include "hone/parallel/launch/rendezvous.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kLost = "hone/lost";
constexpr const char* kFinished = "finished";

std::string beat_key(int rank) { return "hone/beat/" + std::to_string(rank); }

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

c10::intrusive_ptr<c10d::Store> connect(const std::string& address, int port, int attempt, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = timeout;
  return store_of_attempt(c10::make_intrusive<c10d::TCPStore>(address, options), attempt);
}

// A rank's heartbeat: a counter that increases while it lives, and its progress.
struct Heartbeat {
  int64_t tick = -1, collective = 0;
  std::string host, doing;

  static Heartbeat parse(const std::string& text) {
    Heartbeat beat;
    std::istringstream(text) >> beat.tick >> beat.collective >> beat.host >> beat.doing;
    return beat;
  }
  std::string str() const { return fmt::format("{} {} {} {}", tick, collective, host, doing); }
};

}  // namespace

class HeartbeatMonitor::Impl {
 public:
  Impl(const World& world, milliseconds limit)
      : world_(world),
        limit_(limit),
        interval_(std::clamp(limit / 6, milliseconds(100), milliseconds(2000))),
        store_(connect(world.master_address, world.master_port, world.attempt, std::max(limit, milliseconds(1000)))),
        host_(host_name()) {
    beat();
    answered_ = Clock::now();
    talking_ = std::thread([this] { talk(); });
    guarding_ = std::thread([this] { guard(); });
  }
  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    talking_.join();
    guarding_.join();
    try {
      doing_ = kFinished;  // so that ranks that still work do not report this one as missing
      beat();
    } catch (const std::exception&) {
      log::debug("rank {}: the master has already left", world_.rank);
    }
  }

  void enter(const char* collective) {
    ++collectives_;
    doing_ = collective;
  }

  std::string explain() {
    std::map<int, Heartbeat> before = read_all();
    for (int look = 0; look < 3; ++look) {
      std::this_thread::sleep_for(2 * interval_);
      if (auto loss = announced(); !loss.empty()) return loss;
    }
    if (master_silent_) return fmt::format("no response from rank 0 at {}:{}", world_.master_address, world_.master_port);
    int64_t most = collectives_;
    for (const auto& [rank, last] : before) {
      auto now = read(rank);
      most = std::max(most, now.collective);
      if (now.tick == last.tick && rank != world_.rank && now.doing != kFinished)
        return describe(rank, now, "sends no heartbeats any more");
    }
    for (const auto& [rank, last] : before)
      if (last.collective + 1 < most) return describe(rank, last, "is behind");
    return "";
  }

 private:
  bool pause() {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, interval_, [this] { return stopping_; });
  }

  // Ranks monitor each other in a ring; each finding is sent to all.
  void talk() {
    Heartbeat last;
    auto heard = Clock::now();
    int next = (world_.rank + 1) % world_.size;
    while (pause()) {
      try {
        beat();
        if (auto loss = announced(); !loss.empty()) leave(loss);
        auto now = read(next);
        answered_ = Clock::now();
        master_silent_ = false;
        if (now.tick != last.tick || now.doing == kFinished) heard = Clock::now(), last = now;
        if (auto silence = Clock::now() - heard; silence > limit_) {
          auto loss = describe(next, last, fmt::format("has sent no heartbeat for {:.0f} s", seconds(silence)));
          put(kLost, loss);
          leave(loss);
        }
      } catch (const std::exception&) {
        master_silent_ = true;
      }
    }
  }

  // A store that hangs without closing its connections blocks its clients forever, so a separate thread watches it.
  void guard() {
    while (pause())
      if (auto silence = Clock::now() - answered_.load(); silence > limit_ + 2 * interval_)
        leave(fmt::format("rank 0 at {}:{} has not answered for {:.0f} s", world_.master_address, world_.master_port,
                          seconds(silence)));
  }

  static double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
  void put(const std::string& key, const std::string& value) {
    std::lock_guard use(store_use_);
    store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  }
  std::string take(const std::string& key) {
    std::lock_guard use(store_use_);
    if (!store_->check({key})) return "";
    auto bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }
  void beat() { put(beat_key(world_.rank), Heartbeat{++tick_, collectives_, host_, doing_.load()}.str()); }
  Heartbeat read(int rank) { return Heartbeat::parse(take(beat_key(rank))); }
  std::map<int, Heartbeat> read_all() {
    std::map<int, Heartbeat> beats;
    try {
      for (int rank = 0; rank < world_.size; ++rank) beats[rank] = read(rank);
    } catch (const std::exception&) {
      master_silent_ = true;
    }
    return beats;
  }
  std::string announced() {
    try {
      return take(kLost);
    } catch (const std::exception&) {
      master_silent_ = true;
      return "";
    }
  }
  static std::string describe(int rank, const Heartbeat& last, const std::string& what) {
    return fmt::format("rank {} on {} {}; it was in collective {} ({})", rank, last.host, what, last.collective, last.doing);
  }

  // The main thread may be blocked in a collective forever: only exiting the process helps.
  [[noreturn]] void leave(const std::string& why) {
    auto message = fmt::format("rank {} of {}: {}", world_.rank, world_.size, why);
    log::error("{}; this rank was in collective {} ({})", message, collectives_.load(), doing_.load());
    write_error_file(message);
    ::_exit(static_cast<int>(ExitCode::lost_peer));
  }

  World world_;
  milliseconds limit_, interval_;
  c10::intrusive_ptr<c10d::Store> store_;  // a separate connection: the main one may be blocked
  std::string host_;
  std::mutex store_use_, mutex_;
  std::condition_variable wake_;
  std::atomic<int64_t> collectives_{0};
  std::atomic<const char*> doing_{"start"};
  std::atomic<bool> master_silent_{false};
  std::atomic<Clock::time_point> answered_;
  int64_t tick_ = 0;
  bool stopping_ = false;
  std::thread talking_, guarding_;
};

HeartbeatMonitor::HeartbeatMonitor(const World& world, milliseconds limit) : impl_(std::make_unique<Impl>(world, limit)) {}
HeartbeatMonitor::~HeartbeatMonitor() = default;
void HeartbeatMonitor::enter(const char* collective) { impl_->enter(collective); }
std::string HeartbeatMonitor::explain() { return impl_->explain(); }

void report_lost_rank(const std::string& master_address, int master_port, const std::string& what) {
  try {
    connect(master_address, master_port, /*attempt=*/0, std::chrono::seconds(2))
        ->set(kLost, std::vector<uint8_t>(what.begin(), what.end()));
  } catch (const std::exception&) {
    log::debug("{}:{} does not respond; could not report that {}", master_address, master_port, what);
  }
}

}  // namespace hone::parallel

// Results that clients wait for. Those of training are in the store; those of sampling are only in memory, and the server does
// not compute a sample that its client has abandoned.
#pragma once
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "hone/serve/http/signal.h"
#include "hone/tinker/model/sampler.h"

namespace hone::tinker {

namespace asio = boost::asio;

// How ids of samples begin that have no session; the others are SESSION:sample:NUMBER:SEQ.
inline constexpr const char* kDirectSample = "direct:sample:";

class Futures {
 public:
  explicit Futures(asio::io_context& io) : io_(io) {}

  // I/O thread: notified when the future is done, or the server shuts down. Check the result after this call, then wait.
  std::shared_ptr<serve::Signal> watch(const std::string& id);
  // Any thread.
  void notify(const std::string& id);
  void notify_all();

  struct Sample {
    std::string owner;
    bool done = false;
    double finished = 0;
    Outcome outcome = {};
    std::optional<serve::Clock::time_point> left = {};  // when its client disconnected from a poll, until it polls again
  };
  // False: already known, nothing changes. None: too many are pending.
  std::optional<bool> add_sample(const std::string& id, const std::string& owner, size_t most);
  void finish_sample(const std::string& id, Outcome outcome);
  std::optional<Sample> sample(const std::string& id, const std::string& owner);

  // The client's last sign of life: a heartbeat, sample request or poll.
  void note_session(const std::string& session);
  void note_poll(const std::string& id, const std::string& owner);
  void note_disconnect(const std::string& id, const std::string& owner);  // from a poll
  // Samples that are not done and need not be computed. A later poll, or a repeated request, gets an error: cancelled.
  bool cancel_sample(const std::string& id, const std::string& owner);  // false: it is done, or unknown
  std::vector<std::string> cancel_session(const std::string& session);  // ids of its samples
  // Those whose session was silent for this long, or whose client disconnected from a poll and has not polled since. They are
  // forgotten as by a restart: a client that returns gets HTTP 410 and sends its request again. `cancel` is called before that
  // can be accepted.
  void drop_abandoned(std::chrono::duration<double> silence, const std::function<void(const std::string& id)>& cancel);

  struct Counts {
    size_t samples = 0, polls = 0;  // not done; clients that wait
    int64_t cancelled = 0;          // since the start
  };
  Counts counts();
  // Removes samples that have been done for this many seconds, and watchers that gave up.
  void forget(double older_than);

 private:
  asio::io_context& io_;
  std::mutex mutex_;
  std::multimap<std::string, std::weak_ptr<serve::Signal>> watchers_;
  std::map<std::string, Sample> samples_;
  std::map<std::string, size_t> unfinished_;                  // by owner
  std::map<std::string, serve::Clock::time_point> heard_of_;  // sessions with samples
  int64_t cancelled_ = 0;
};

}  // namespace hone::tinker

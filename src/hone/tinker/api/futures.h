// Results that clients wait for. Those of training are in the store; those of sampling are only in memory.
#pragma once
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <mutex>

#include "hone/serve/http/signal.h"
#include "hone/tinker/model/sampler.h"

namespace hone::tinker {

namespace asio = boost::asio;

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
  };
  // False: already known, nothing changes. None: too many are pending.
  std::optional<bool> add_sample(const std::string& id, const std::string& owner, size_t most);
  void finish_sample(const std::string& id, Outcome outcome);
  std::optional<Sample> sample(const std::string& id, const std::string& owner);
  struct Counts {
    size_t samples = 0, polls = 0;  // not done; clients that wait
  };
  Counts counts();
  // Removes samples that have been done for this many seconds, and watchers that gave up.
  void forget(double older_than);

 private:
  asio::io_context& io_;
  std::mutex mutex_;
  std::multimap<std::string, std::weak_ptr<serve::Signal>> watchers_;
  std::map<std::string, Sample> samples_;
  std::map<std::string, size_t> unfinished_;  // by owner
};

}  // namespace hone::tinker

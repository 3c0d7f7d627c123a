// Datasets and loaders that Twinkle's client creates on the server, by id: per tenant, in memory only. Thread-safe.
#pragma once
#include <list>
#include <mutex>

#include "hone/tinker/twinkle/dataset.h"

namespace hone::tinker {

class TwinkleProcessors {
 public:
  TwinkleProcessors(const serve::ServedModel& served, std::filesystem::path dataset_root)
      : served_(served), root_(std::move(dataset_root)) {}

  // Bodies of the client's create and call, and their responses.
  Json create(const std::string& tenant, Json body);
  Json call(const std::string& tenant, Json body);

 private:
  struct Entry {
    std::string id, tenant;
    std::shared_ptr<TwinkleProcessor> processor;
    std::shared_ptr<std::mutex> busy;  // calls on one processor run one after the other
  };
  Entry find(const std::string& tenant, const std::string& id);
  void remove_beyond_limits(const std::string& tenant);

  const serve::ServedModel& served_;
  std::filesystem::path root_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last in front
};

}  // namespace hone::tinker

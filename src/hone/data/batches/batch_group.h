// A batch group: batches that a sampler builds together. Their media are decoded shortly before they are taken, since a group may
// have thousands of images.
#pragma once
#include <deque>
#include <future>
#include <optional>

#include "hone/base/thread_pool.h"
#include "hone/data/batches/collator.h"
#include "hone/data/batches/make_loader.h"

namespace hone::data {

// A batch, or, if it has media, the packs that it is made of.
struct LazyBatch {
  std::optional<Batch> made;
  std::vector<SamplePack> packs;
};
LazyBatch make_unless_media(std::vector<SamplePack> packs, const LoaderConfig& config);

// Its threads refer to the config, which must outlive the pool.
class BatchGroup {
 public:
  BatchGroup(const LoaderConfig& config, ThreadPool& pool) : config_(config), pool_(pool) {}

  // Takes the batches from `offset` on.
  void start(std::vector<LazyBatch> batches, size_t offset = 0);
  Batch next();
  size_t size() const { return batches_.size(); }
  size_t offset() const { return offset_; }  // of those taken
  bool is_over() const { return offset_ >= batches_.size(); }

 private:
  std::future<Batch> make(LazyBatch batch);

  const LoaderConfig& config_;
  ThreadPool& pool_;
  std::vector<LazyBatch> batches_;
  size_t offset_ = 0;
  std::deque<std::future<Batch>> ahead_;  // from offset_ on
};

}  // namespace hone::data

// Server-side loaders of Twinkle's client.
#pragma once
#include "hone/tinker/twinkle/dataset.h"

namespace hone::tinker {

// Batches of a dataset in order; resumable by row count.
class TwinkleDataLoader : public TwinkleProcessor {
 public:
  TwinkleDataLoader(std::shared_ptr<TwinkleDataset> dataset, const Json& arguments);
  // __next__ after the last batch throws ApiError(410).
  Json call(const std::string& function, const Json& arguments) override;
  const TwinkleDataset& dataset() const override { return *dataset_; }

 private:
  size_t batches() const;
  Json next();

  std::shared_ptr<TwinkleDataset> dataset_;
  size_t batch_size_ = 1, position_ = 0, skipped_ = 0, consumed_ = 0;
  bool drop_last_ = false;
};

}  // namespace hone::tinker

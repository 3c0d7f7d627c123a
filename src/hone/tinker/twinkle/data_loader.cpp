#include "hone/tinker/twinkle/data_loader.h"

#include <algorithm>

#include "hone/serve/http/api_error.h"
#include "hone/tinker/twinkle/dataset_rows.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr size_t kLargestBatch = size_t{256} << 20;

}  // namespace

TwinkleDataLoader::TwinkleDataLoader(std::shared_ptr<TwinkleDataset> dataset, const Json& arguments)
    : dataset_(std::move(dataset)) {
  require_known(arguments, {"dataset", "batch_size", "drop_last", "num_workers", "shuffle", "min_batch_size", "max_retries"},
                "DataLoader");
  batch_size_ = static_cast<size_t>(integer_field(arguments, "batch_size", 1, 1, static_cast<int64_t>(kMostRows)));
  drop_last_ = flag_field(arguments, "drop_last", false);
  if (flag_field(arguments, "shuffle", false))
    throw RequestError("shuffle=True is not supported by this server: shuffle the rows");
  if (has_field(arguments, "min_batch_size")) throw RequestError("min_batch_size is not supported by this server");
}

size_t TwinkleDataLoader::batches() const {
  const auto count = dataset_->rows().size();
  return drop_last_ ? count / batch_size_ : (count + batch_size_ - 1) / batch_size_;
}

Json TwinkleDataLoader::next() {
  const auto& rows = dataset_->rows();
  const auto end = std::min(rows.size(), (position_ / batch_size_ + 1) * batch_size_);
  if (position_ >= rows.size() || position_ / batch_size_ >= batches())
    throw serve::ApiError(410, "the loader has no more batches", "", "gone");
  Json batch = Json::array();
  size_t bytes = 0;
  for (auto row = position_; row < end; ++row) {
    bytes += bytes_in_memory(rows[row]);
    if (bytes > kLargestBatch) throw RequestError("the batch takes more than 256 MB of memory; expected a smaller batch_size");
    batch.push_back(rows[row]);
  }
  position_ = end;
  consumed_ += batch_size_;
  return batch;
}

Json TwinkleDataLoader::call(const std::string& function, const Json& arguments) {
  if (function == "__len__") return batches();
  if (function == "__next__") return next();
  if (function == "get_state") return {{"consumed_train_samples", consumed_}};
  if (function == "__iter__") {
    position_ = skipped_;
    return "ok";
  }
  if (function == "skip_consumed_samples" || function == "resume_from_checkpoint") {
    skipped_ = consumed_ = static_cast<size_t>(integer_field(arguments, "consumed_train_samples", 0, 0));
    return nullptr;
  }
  throw RequestError(fmt::format("{} of a loader is not supported by this server", function));
}

}  // namespace hone::tinker

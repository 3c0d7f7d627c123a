// Batch sampler: the rows of each batch of an epoch as a function of the batch's index alone, so that any batch can be built at
// any time on any thread.
#pragma once
#include "hone/base/rng.h"
#include "hone/base/thread_pool.h"
#include "hone/data/batches/batch_group.h"
#include "hone/data/batches/collator.h"
#include "hone/data/batches/row_encoder.h"

namespace hone::data {

// For rows with more candidates than a batch takes, the ones of this epoch.
void sample_candidates(std::vector<SamplePack>& rows, const LoaderConfig& config, int64_t epoch);

class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  virtual int64_t groups() const = 0;                 // batch groups of one epoch, for this rank
  virtual int64_t batches() const = 0;                // of one epoch, for this rank; an estimate when lengths are not known
  virtual size_t prefetch(size_t threads) const = 0;  // groups to prepare ahead
  virtual std::vector<LazyBatch> build(int64_t epoch, int64_t group) const = 0;
  // Rows per group over all ranks, so that a position means the same for any number of ranks. Negative if groups are not plain
  // rows.
  virtual int64_t rows_per_group() const = 0;
};

// Small inputs: every row is encoded once to know its length; failing rows are skipped.
std::shared_ptr<const BatchSampler> make_indexed_sampler(RowEncoder rows, const LoaderConfig& config,
                                                         std::shared_ptr<RowReport> report, ThreadPool& pool);
// Large inputs: nothing is read before it is needed.
std::shared_ptr<const BatchSampler> make_lazy_sampler(RowEncoder rows, const LoaderConfig& config,
                                                      std::shared_ptr<RowReport> report);

// Shared by the samplers and the stream: arranges samples into packs and packs into batches.
Batch make_batch(std::span<const SamplePack> packs, const LoaderConfig& config);
std::vector<SamplePack> arrange_packs(std::vector<SamplePack> samples, const LoaderConfig& config, int64_t capacity,
                                      const Encoder& encoder);
int64_t count_batches(size_t packs, const LoaderConfig& config);
std::vector<LazyBatch> pack_batches(std::vector<SamplePack> samples, const LoaderConfig& config, int64_t capacity, Rng* shuffle,
                                    const Encoder& encoder);
int64_t pack_capacity(const LoaderConfig& config, const Encoder& encoder);
PackMask joint_of(Packing packing);

}  // namespace hone::data

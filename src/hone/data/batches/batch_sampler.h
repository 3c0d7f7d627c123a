// Batch sampler: the rows of each batch of an epoch as a function of the batch's index alone, so that any batch can be built at
// any time on any thread.
#pragma once
#include "hone/base/rng.h"
#include "hone/base/thread_pool.h"
#include "hone/data/batches/collator.h"
#include "hone/data/batches/make_loader.h"

namespace hone::data {

// Encodes a row to its samples: one, several (split), chosen and rejected, a completion and a mismatched one, or a group.
class RowEncoder {
 public:
  RowEncoder(std::shared_ptr<const ConversationSource> source, std::shared_ptr<const Encoder> encoder,
             const LoaderConfig& config);
  Result<SamplePack> operator()(int64_t row) const;
  // As above; with KL pairs, a row's partner is the previous row in training order, or a fixed one where rows are packed.
  Result<SamplePack> operator()(int64_t row, int64_t before) const;
  int64_t rows() const { return source_->size(); }
  const ConversationSource& source() const { return *source_; }
  const Encoder& encoder() const { return *encoder_; }

 private:
  Result<SamplePack> with_kl_pair(int64_t row, int64_t partner_row) const;

  std::shared_ptr<const ConversationSource> source_;
  std::shared_ptr<const Encoder> encoder_;
  LoaderConfig config_;
  std::vector<int64_t> partners_;  // of each row in packs with KL pairs, whose lengths must be known; else empty
};
Result<SamplePack> encode_conversation(const Encoder& encoder, const Conversation& conversation, const LoaderConfig& config,
                                       int64_t row);
// For rows with more candidates than a batch takes, the ones of this epoch.
void sample_candidates(std::vector<SamplePack>& rows, const LoaderConfig& config, int64_t epoch);

class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  virtual int64_t groups() const = 0;                 // of one epoch, for this rank
  virtual int64_t batches() const = 0;                // of one epoch, for this rank; an estimate when lengths are not known
  virtual size_t prefetch(size_t threads) const = 0;  // units to prepare ahead
  virtual std::vector<Batch> build(int64_t epoch, int64_t unit) const = 0;
  // Rows per unit over all ranks, so that a position means the same for any number of ranks. Negative if units are not plain
  // rows.
  virtual int64_t rows_per_group() const = 0;
};

// Small inputs: every row is encoded once to know its length; failing rows are skipped.
std::shared_ptr<const BatchSampler> make_indexed_sampler(RowEncoder rows, const LoaderConfig& config,
                                                         std::shared_ptr<RowReport> report, ThreadPool& pool);
// Large inputs: nothing is read before it is needed.
std::shared_ptr<const BatchSampler> make_lazy_sampler(RowEncoder rows, const LoaderConfig& config,
                                                      std::shared_ptr<RowReport> report);

// Shared by plans and the stream: arranges samples into packs and packs into batches.
Batch make_batch(std::span<const SamplePack> packs, const LoaderConfig& config);
std::vector<Batch> pack_batches(std::vector<SamplePack> samples, const LoaderConfig& config, int64_t capacity, Rng* shuffle,
                                const Encoder& encoder);
int64_t pack_capacity(const LoaderConfig& config, const Encoder& encoder);
PackMask joint_of(Packing packing);

}  // namespace hone::data

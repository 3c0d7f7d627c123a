// From a row of a dataset to its samples, by the training method's kind of rows.
#pragma once
#include <memory>
#include <vector>

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

// A row without KL pairs, by what the loader's config says its samples are.
Result<SamplePack> encode_conversation(const Encoder& encoder, const Conversation& conversation, const LoaderConfig& config,
                                       int64_t row);

}  // namespace hone::data

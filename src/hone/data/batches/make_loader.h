// Builds the loader of a run from conversations and an encoder.
#pragma once
#include <functional>

#include "hone/data/batches/loader.h"
#include "hone/data/batches/pack.h"
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/encode/kto_rows.h"
#include "hone/data/encode/pooling_rows.h"
#include "hone/data/row_report.h"

namespace hone::data {

// Looks at a row before it is encoded, on any thread. Throws UserError for a row that the run cannot have.
using RowCheck = std::function<void(const Conversation&)>;

struct LoaderConfig {
  int64_t batch_size = 1;  // samples a batch; packs when packing
  uint64_t seed = 42;      // with the epoch, all that the order depends on
  bool shuffle = true;
  const char* display_name = "the dataset";  // in messages
  int rank = 0, world_size = 1;
  bool shard_batches =
      false;  // assigns full batches to ranks round-robin, each batch once (evaluation), instead of an equal number of rows
  Packing packing = Packing::none;
  int64_t packing_length = 0;               // tokens a pack; 0: the encoder's max_length
  int64_t packing_window = 1000;            // samples that packs are made of together, as ms-swift and LLaMA-Factory do
  bool group_by_length = false;             // batches of like lengths
  bool drop_last = false;                   // leave out a last batch that is not full
  bool pairs = false;                       // preference data: chosen and rejected of a row are adjacent
  bool margins = false;                     // of pairs: reward models learn their `margin`, so any other value makes a bad row
  std::optional<PoolingDataConfig> groups;  // texts scored as wholes: those of a row stay together
  std::optional<KtoConfig> feedback;        // responses that are good or bad; not of streams
  PayloadCollator payload;                  // of the training method; empty: it needs none
  RowCheck check;                           // of the training method; empty: it has none
  bool keeps_rows_together() const { return pairs || groups || feedback; }
  int64_t shuffle_buffer = 1000;         // streaming: rows shuffled together
  size_t threads = 0;                    // 0: one a core
  int64_t prefetch = 2;                  // batches under way for each thread
  bool pin_memory = true;                // copies to an accelerator start from page-locked memory and do not wait
  int64_t batches_per_stream_epoch = 0;  // streaming: batches that count as one epoch; 0: only whole passes count
  int64_t index_limit_bytes = 16 << 20;  // inputs up to this size are looked through first, so that batches per epoch are exact
};

// Rows that cannot be used are reported once. Small inputs drop them; large ones, which are never read completely, replace each
// by another row.
std::unique_ptr<Loader> make_loader(std::shared_ptr<const ConversationSource> source, std::shared_ptr<const Encoder> encoder,
                                    LoaderConfig config, std::shared_ptr<RowReport> report);
std::unique_ptr<Loader> make_loader(std::unique_ptr<ConversationStream> stream, std::shared_ptr<const Encoder> encoder,
                                    LoaderConfig config, std::shared_ptr<RowReport> report);

}  // namespace hone::data

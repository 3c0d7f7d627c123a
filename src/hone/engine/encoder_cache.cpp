#include "hone/engine/encoder_cache.h"

#include "hone/engine/prompt_images.h"
#include "hone/model/encoders/media_encoder.h"
#include "hone/tuner/multi_adapter.h"

namespace hone::engine {

// Positions after the prompt are consecutive; inside the prompt they may have three axes, and some rows belong to media.
void EncoderCache::fill(const Sequence& sequence, model::PagedChunk& chunk) {
  const auto& images = sequence.request.images;
  const auto count = static_cast<int64_t>(chunk.tokens.size()), begin = chunk.past, end = begin + count;
  if (begin >= sequence.prompt_size) {
    chunk.position_offset = images->position_offset;
    return;
  }
  chunk.positions_c = images->positions(begin, count);
  const auto& rows = images->rows_n;
  auto here = at::logical_and(rows >= begin, rows < end).nonzero().squeeze(1);
  if (here.numel() == 0) return;
  const auto& computed = features(images, sequence.request.adapter);
  const auto chosen = here.to(model_.device());
  chunk.encoder = {rows.index_select(0, here) - begin, computed.embeddings_nh.index_select(0, chosen), {}};
  chunk.bidirectional = model_.config().vision && model_.config().vision->bidirectional_images;
  for (const auto& addition : computed.deepstack) chunk.encoder.deepstack.push_back(addition.index_select(0, chosen));
}

const model::EncoderEmbeddings& EncoderCache::features(const std::shared_ptr<const PromptImages>& images,
                                                       const std::string& adapter) {
  std::erase_if(entries_, [](const auto& entry) { return entry.owner.expired(); });
  for (const auto& entry : entries_)
    if (entry.owner.lock() == images && entry.adapter == adapter) return entry.features;
  at::NoGradGuard no_grad;
  const tuner::ActiveAdapter active(model_, adapter);
  entries_.push_back({images, adapter, model::encode_media(model_.decoder(), images->images, images->audio, model_.training())});
  return entries_.back().features;
}

}  // namespace hone::engine

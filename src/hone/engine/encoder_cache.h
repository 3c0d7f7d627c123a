// Encoder cache: outputs of the vision and audio towers for the media of prompts that are not prefilled yet, so that the chunks
// of a prompt, and requests that share one, encode them once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/engine/sequence.h"
#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"

namespace hone::engine {

class EncoderCache {
 public:
  explicit EncoderCache(model::CausalLM& model) : model_(model) {}

  // Positions and encoder outputs of the rows of `chunk`, which are tokens of a sequence that has media.
  void fill(const Sequence& sequence, model::PagedChunk& chunk);

 private:
  struct Entry {
    std::weak_ptr<const PromptImages> owner;
    std::string adapter;  // that was active in the towers
    model::EncoderEmbeddings features;
  };
  const model::EncoderEmbeddings& features(const std::shared_ptr<const PromptImages>& images, const std::string& adapter);

  model::CausalLM& model_;
  std::vector<Entry> entries_;
};

}  // namespace hone::engine

// The module tree of a decoder, and what was set up for it from outside.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/model/block.h"
#include "hone/model/config.h"
#include "hone/model/encoders/audio_tower.h"
#include "hone/model/encoders/vision_tower.h"
#include "hone/model/pipelined_blocks.h"

namespace hone::io {
class WeightFolder;
}

namespace hone::model {

class TensorParallelDecoder;
class WeightHooks;
struct CachedTowers;

struct Decoder {
  DecoderConfig config;
  Embedding embedding;
  std::vector<Block> blocks;
  Norm norm;
  Linear head;
  std::optional<VisionTower> vision;                    // what pictures go through first
  std::optional<AudioTower> audio;                      // what recordings go through first
  std::shared_ptr<const io::WeightFolder> files = {};   // of carried tensors; null: there are none
  std::optional<Linear> value_head;                     // of one value a token, where there is one (value_head.h)
  double neftune_alpha = 0;                             // size of the noise on embeddings, in training
  bool shifted_attention = false;                       // LongLoRA's, in training
  std::shared_ptr<ActivationOffloader> offloader = {};  // where inputs of recomputed blocks wait; null: where they are
  TensorParallelRegion* region = nullptr;               // training: other ranks hold the rest of its layers; null: it is whole
  PipelinedBlocks* pipeline = nullptr;                  // training: other ranks hold the rest of its blocks; null: all are here
  ops::ExpertDispatcher* experts = nullptr;             // training: other ranks hold the rest of its experts; null: as its layers
  ModuleObserver* observer = nullptr;                   // null: module boundaries are not observed
  WeightHooks* weight_hooks = nullptr;                  // called for each unit by its index; null: all weights are always here
  DistributedAttention* distributed_attention = nullptr;   // training: other ranks have the rest of each sequence; null: none has
  std::shared_ptr<TensorParallelDecoder> shards = {};      // inference: they compute, and the weights here are kept for adapters
  std::shared_ptr<const CachedTowers> cached_towers = {};  // of frozen towers; null: towers compute every time

  std::vector<Unit> units();  // the embedding, the blocks, the final norm, the head, a value head and encoders where there are
  Module tree();              // with the units as children
};

// Names and shapes of every parameter with undefined tensors, filled by a loader.
Decoder decoder_skeleton(const DecoderConfig& config);

}  // namespace hone::model

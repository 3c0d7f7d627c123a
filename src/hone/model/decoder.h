// The modules of a decoder, and what other components have set up for them: hooks, shards, offloading.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/model/block.h"
#include "hone/model/config.h"
#include "hone/model/distributed_attention.h"
#include "hone/model/encoders/audio_tower.h"
#include "hone/model/encoders/vision_tower.h"
#include "hone/model/module_observer.h"
#include "hone/model/pipelined_blocks.h"
#include "hone/model/tensor_parallel/region.h"

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
  std::optional<VisionTower> vision;                      // encodes images
  std::optional<AudioTower> audio;                        // encodes audio
  std::shared_ptr<const io::WeightFolder> files = {};     // of tensors that are saved unchanged; null: there are none
  std::optional<Linear> value_head;                       // outputs one value per token (value_head.h)
  double neftune_alpha = 0;                               // size of the noise on embeddings, in training
  bool shifted_attention = false;                         // LongLoRA's, in training
  std::shared_ptr<ActivationOffloader> offloader = {};    // of inputs of recomputed blocks; null: they stay on the device
  TensorParallelRegion* region = nullptr;                 // training: layers are sharded across ranks; null: they are not
  PipelinedBlocks* pipeline = nullptr;                    // training: other ranks have the other blocks; null: all are here
  ops::ExpertDispatcher* experts = nullptr;               // training: experts are distributed over ranks; null: like its layers
  ModuleObserver* observer = nullptr;                     // null: module boundaries are not observed
  WeightHooks* weight_hooks = nullptr;                    // called for each unit by its index; null: weights are always in memory
  DistributedAttention* distributed_attention = nullptr;  // training: sequences are split over ranks; null: they are not
  std::shared_ptr<TensorParallelDecoder> shards = {};     // inference: these compute; the weights here are kept for adapters
  std::shared_ptr<const CachedTowers> cached_towers = {};  // of frozen towers; null: nothing is cached

  std::vector<Unit> units();  // embedding, blocks, final norm, head, then a value head and encoders if any
  Module tree();              // with the units as children
};

// Names and shapes of every parameter with undefined tensors, filled by a loader.
Decoder decoder_skeleton(const DecoderConfig& config);

}  // namespace hone::model

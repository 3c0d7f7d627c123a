// Changes that a run makes to a loaded model: settings of config.json, rows of the vocabulary, missing weights.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::model {

struct Decoder;

// New rows of the embedding and the head are initialized to the mean of the old ones.
struct EmbeddingResize {
  int64_t rows = 0;                                   // afterwards; not above what the model has: nothing changes
  bool noise = false;                                 // normal noise of size 1 / sqrt(width) is added
  std::map<int64_t, std::vector<int64_t>> described;  // new rows that start as the mean of these old ones instead
  bool noise_on_described = false;
  uint64_t seed = 42;
};

struct ModelOverrides {
  std::optional<ops::WeightQuantization> compression;  // of the linear layers of all blocks, which then do not train
  Json config = Json::object();                        // laid over config.json
  EmbeddingResize vocabulary;
  int64_t block_stride = 0;                         // LLaMA-Pro: a new block after every block_stride; 0: none (expansion.h)
  uint64_t head_seed = 42;                          // of a classifier's head that the folder lacks, and of a value head
  std::optional<std::filesystem::path> value_head;  // a head of values is added, out of this folder (value_head.h)
  bool has_own_score_layers = false;                // the caller reads the layers of the folder's scoring head itself
  bool experts_one_by_one = false;                  // experts compute one after the other instead of all in one product
  bool experts_on_host = false;                     // routed experts stay in host memory, and compute there
  bool routers_in_float32 = false;                  // routers of 16-bit models compute in float32, as Megatron's
  std::string
      init_strategy;  // how weights that the folder lacks are filled: zero, uniform, normal, xavier_…, kaiming_…, orthogonal
};

void resize_token_embeddings(Decoder& decoder, const EmbeddingResize& growth);

}  // namespace hone::model

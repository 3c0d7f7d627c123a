// A model with its adapters, template, sampling settings and engine: everything needed to generate.
#pragma once
#include <filesystem>
#include <memory>

#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/cli/options.h"
#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"

namespace hone::cli {

class ReplyGenerator {
 public:
  explicit ReplyGenerator(const Options& options);

  // `index` separates the random streams of several completions. Errors are those of the row.
  Result<engine::Request> request_for(const data::Conversation& conversation, uint64_t index = 0) const;

  engine::Engine& engine() { return *engine_; }
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::shared_ptr<const data::Encoder>& encoder() const { return encoder_; }
  const engine::SamplingParams& sampling() const { return sampling_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  ModelReplicas copies_;
  std::shared_ptr<const data::Encoder> encoder_;
  engine::SamplingParams sampling_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace hone::cli

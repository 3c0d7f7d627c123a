// Benchmarks during training. A higher component runs them and is passed in with the job.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>

#include "hone/base/json.h"
#include "hone/data/encode/encoder.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

struct BenchmarkInput {
  model::CausalLM& model;  // in evaluation mode, all of its weights in this process
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const data::Encoder> encoder;
  std::filesystem::path folder;  // of the run
  int64_t step;
};
// The logged metrics: {"test_mmlu": 0.31}.
using Benchmark = std::function<Json(const BenchmarkInput& input)>;

}  // namespace hone::train

// LLaMA-Factory's `eval`: MMLU, C-Eval and CMMLU by the log-likelihood of the four letters, in a chat.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"

namespace hone::eval {

struct FactoryEvaluationConfig {
  std::string task = "mmlu_test";  // the benchmark and its split
  std::filesystem::path task_dir = "evaluation";
  std::string lang = "en";
  int64_t n_shot = 5;
  uint64_t seed = 42;
  int64_t batch_size = 0;          // questions at a time; 0: as many as the engine holds
  std::filesystem::path save_dir;  // must not exist; "": nothing is written
};

// One subject with its prompts.
struct FactorySubject {
  std::string id, name, category;
  std::vector<data::Conversation> prompts;
  std::vector<std::string> labels;
};

// Reads mapping.json and the subjects' files. Throws UserError(bad_data).
std::vector<FactorySubject> read_factory_subjects(const FactoryEvaluationConfig& config);

// The table that LLaMA-Factory prints; results.json and results.log in save_dir.
std::string run_factory_evaluation(const FactoryEvaluationConfig& config, const std::vector<FactorySubject>& subjects,
                                   engine::Engine& engine, const data::Encoder& encoder);

}  // namespace hone::eval

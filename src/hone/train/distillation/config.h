// Configuration of distillation (GKD).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/engine/engine.h"
#include "hone/train/rl/servers/config.h"
#include "hone/train/rl/turns/config.h"

namespace hone::train {

// A server that returns prompt_logprobs. With several servers, each gets the sequences of its tags.
struct TeacherServer {
  std::string address;
  std::vector<std::string> tags = {};
};

struct TeacherConfig {
  std::filesystem::path folder;  // of a model; empty: none
  std::vector<std::filesystem::path> adapters;
  std::vector<TeacherServer> servers;
  std::string tag_key = "dataset";  // the column that holds a row's tag; without it, the dataset that the row is of
  double server_timeout = 240;      // seconds that a response may take
  std::filesystem::path stored;     // where a teacher's top-k log-probabilities are kept between runs; empty: nowhere
};

struct DistillationConfig {
  TeacherConfig teacher;
  double beta = 0.5;            // 0: forward KL, 1: reverse KL, between: generalized Jensen-Shannon divergence
  double temperature = 0.9;     // of both distributions, and of sampling
  double sft_alpha = 0;         // weight of the cross-entropy of rows, not of generated completions
  std::optional<int64_t> topk;  // the divergence among the teacher's k most likely tokens alone

  double lmbda = 0.5;   // share of batches whose completions the student generates
  bool seq_kd = false;  // the teacher generates those of the others
  engine::SamplingParams sampling;
  engine::EngineConfig engine;
  std::optional<rl::RolloutServerConfig> servers;  // that generate for the student; unset: the engine
  bool engine_sleeps = false, log_completions = false;
  std::optional<rl::TurnConfig> turns;  // of generated completions; unset: one turn ends them

  bool always_generates() const { return lmbda >= 1 || seq_kd; }
  bool generates() const { return lmbda > 0 || seq_kd; }
};

}  // namespace hone::train

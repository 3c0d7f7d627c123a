// A loader for distillation: batches of rows, or of completions that the student generates for their prompts, by a ratio.
#pragma once
#include "hone/data/batches/loader.h"
#include "hone/train/distillation/config.h"
#include "hone/train/rl/completions_log.h"
#include "hone/train/rl/prompts.h"
#include "hone/train/rl/turns/turn_loop.h"

namespace hone::train {

class DistillationLoader final : public data::Loader {
 public:
  struct Order {
    int64_t batch = 1, accumulation = 1;  // prompts of a batch on each process, batches of an update
    int rank = 0, processes = 1;
    uint64_t seed = 42;
    bool shuffle = true;
  };
  // `rows` null: every batch is generated, and only prompts are needed.
  DistillationLoader(const DistillationConfig& config, std::unique_ptr<data::Loader> rows,
                     std::shared_ptr<const rl::Prompts> prompts, Order order);

  struct Deps {
    model::CausalLM& student;
    const tuner::Tuned& tuned;                // what trains of it
    model::CausalLM* teacher;                 // that generates too; null: none does
    ParallelStrategy& strategy;               // of data parallel ranks
    ParallelStrategy& processes;              // all of them
    parallel::ProcessGroup* peers = nullptr;  // that train on the same rows; null: none do
    const WeightFiles* files = nullptr;       // of the student; null: it is not saved
    bool sharded;
    std::shared_ptr<const data::Encoder> encoder;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    fs::path folder;  // of the run
  };
  // Call it before the first next(). Throws UserError(usage) if the teacher should generate and cannot.
  void begin(Deps deps);

  data::Batch next() override;
  int64_t batches_per_epoch() const override;
  double epoch() const override;
  Json state() const override;
  void restore(const Json& state) override;
  bool computes_with_model() const override { return true; }
  bool can_reshard_state(const Json& state) const override;

 private:
  bool student_generates() const;
  std::vector<rl::Prompt> next_prompts() const;
  std::vector<rl::Prompt> prompts_of(const data::Batch& batch) const;
  std::vector<rl::RolloutSample> complete(std::vector<rl::Prompt> prompts, rl::RolloutEngine& engine);
  data::Batch generated(std::vector<rl::Prompt> prompts, rl::RolloutEngine& engine);
  void log(const std::vector<rl::RolloutSample>& samples);

  DistillationConfig config_;
  std::unique_ptr<data::Loader> rows_;
  std::shared_ptr<const rl::Prompts> prompts_;
  Order order_;
  int64_t given_ = 0;  // batches
  std::optional<Deps> deps_;
  std::unique_ptr<rl::TurnLoop> turns_;  // null: one turn ends a completion
  std::unique_ptr<rl::RolloutEngine> student_, teacher_;
};

}  // namespace hone::train

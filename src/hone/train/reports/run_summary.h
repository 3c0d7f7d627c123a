// Summaries before the first step and after the last: what is trained, how long, and where the results are.
#pragma once
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/train/loop/trainer.h"
#include "hone/train/suggested_commands.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

// One row per kind of parameter, layers folded into one: "model.layers.*.self_attn.q_proj.lora_A.weight  [8, 64]  x24  12,288".
std::string trainable_table(const tuner::Tuned& tuned);

// The main settings of a run, mostly resolved automatically.
struct RunFacts {
  std::string model, tuner, device, dtype, template_name;   // an empty template is the model's own
  int64_t max_length = 0;                                   // 0: none
  int64_t examples = -1;                                    // -1: streamed
  int64_t tokens = 0, trained_tokens = 0, longest_row = 0;  // 0: not known before they are read
  int processes = 1;
  int copies = 1;  // of the model: each has rows of its own
};

// transformers' "***** Running training *****" block, and the facts of the run.
std::string running_block(const TrainerConfig& config, const StepCounts& counts, const RunFacts& facts,
                          const tuner::Tuned& tuned);

struct RunResult {
  Outcome outcome = Outcome::finished;
  TrainState state;
  RunFolder run;
  std::vector<fs::path> plots;
  fs::path model_folder;
  bool adapter = true;
  bool scores = false;      // a reward model, which generates nothing
  bool overwrites = false;  // the same command starts from scratch
  Layout layout = Layout::swift;
  bool best_loaded = false;  // load_best_model_at_end
  Json loss_state = {};      // of Loss::state, which a later evaluation restores

  bool complete() const { return outcome == Outcome::finished || outcome == Outcome::early_stopped; }
  // Whether the last step's weights are on disk: LLaMA-Factory's layout keeps final weights next to the checkpoints.
  bool kept() const { return state.failed_saves_in_a_row == 0 || (layout == Layout::factory && complete()); }
};
// The locations of weights, logs and plots, and the next command, if there is a function for it.
std::string final_summary(const RunResult& finished, const NextCommand& next_command);

}  // namespace hone::train

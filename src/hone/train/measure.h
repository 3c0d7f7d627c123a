// Validation rows of a run: evaluation sets, generated answers, and what LLaMA-Factory measures after training.
#pragma once
#include "hone/train/loaded_model.h"
#include "hone/train/overview.h"
#include "hone/train/prepare.h"

namespace hone::train {

// One process's part of something that all share in turn.
struct Share {
  int rank = 0, world = 1;
};

std::vector<EvaluationSet> evaluations_of(const TrainingJob& job, const Prepared& ready, Share share);
// Empty when there are no validation rows.
Predict predictor_of(const TrainingJob& job, const Prepared& ready, model::CausalLM& model, Share share);

// What LLaMA-Factory does after training, or without any: a last evaluation, generated answers. Of processes that share one model all
// take part; the first one writes. `finished` is null where nothing was trained.
void measure(const TrainingJob& job, const Prepared& ready, LoadedModel& loaded, const Finished* finished, bool main);

}  // namespace hone::train

// Divergence of a model's distributions from a teacher's, directly from hidden states: logits of both exist a few rows at a time,
// and the gradient is computed in the same pass, so that the teacher is called only once.
#pragma once
#include <functional>

#include "hone/model/causal_lm.h"

namespace hone::train {

// A teacher's output at some positions: logits or log-probabilities of all tokens [N, V], or of some tokens with their ids [N,
// K].
struct TeacherScores {
  Tensor scores_nv, indices_nk;
};
using AskTeacher = std::function<TeacherScores(const Tensor& positions_n)>;

struct DivergenceConfig {
  double beta = 0.5;  // 0: forward KL, 1: reverse KL, between: generalized Jensen-Shannon divergence
  double temperature = 1;
};

// The trained parameters of a head: its weight and bias, or its adapters.
TensorList trained_of_head(const model::Linear& head);

// The sum over rows of logits, as trl's generalized_jsd_loss before its reduction.
Tensor divergence_of_logits(const Tensor& student_nv, const Tensor& teacher_nv, const DivergenceConfig& config);
// The sum over the given positions of hidden states [T, hidden], differentiable. If the vocabularies are padded to different
// sizes, only common tokens count.
Tensor linear_divergence(model::CausalLM& student, const Tensor& hidden_th, const Tensor& positions_n, const AskTeacher& teacher,
                         const DivergenceConfig& config);

}  // namespace hone::train

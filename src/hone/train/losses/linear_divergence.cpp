#include "hone/train/losses/linear_divergence.h"

#include <algorithm>
#include <cmath>

#include "hone/device/autograd.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor kl_sum(const Tensor& from_nv, const Tensor& to_nv) { return (from_nv.exp() * (from_nv - to_nv)).sum(); }

struct DivergenceTask : torch::CustomClassHolder {
  model::CausalLM* student = nullptr;
  Tensor positions_n;
  AskTeacher teacher;
  DivergenceConfig config;
  TensorList trained;  // of the head

  Tensor of_rows(const Tensor& rows_nh, const Tensor& positions) const {
    auto logits = student->logits(rows_nh).to(at::kFloat);
    TeacherScores scores;
    {
      at::NoGradGuard no_grad;
      scores = teacher(positions);
      scores.scores_nv = scores.scores_nv.to(at::kFloat);
    }
    if (scores.indices_nk.defined()) return divergence_of_logits(logits.gather(1, scores.indices_nk), scores.scores_nv, config);
    const auto common = std::min(logits.size(1), scores.scores_nv.size(1));
    return divergence_of_logits(logits.narrow(1, 0, common), scores.scores_nv.narrow(1, 0, common), config);
  }
};

struct DivergencePass {
  Tensor sum, dhidden;
  TensorList dtrained;
};

// Both, a few rows at a time; the gradient only if requested.
DivergencePass run_rows(const Tensor& hidden_th, const DivergenceTask& task, bool with_gradient) {
  constexpr int64_t kBytesOfEach = int64_t{48} << 20;  // logits of the student, and of the teacher
  const int64_t rows = rows_at_once(*task.student, kBytesOfEach);
  DivergencePass pass{at::zeros({}, hidden_th.options().dtype(at::kFloat)), {}, TensorList(task.trained.size())};
  if (with_gradient) pass.dhidden = at::zeros_like(hidden_th);
  for (const auto& part : task.positions_n.split(rows)) {
    at::AutoGradMode record(with_gradient);
    auto own = hidden_th.detach().index_select(0, part).requires_grad_(with_gradient);
    auto sum = task.of_rows(own, part);
    pass.sum += sum.detach();
    if (!with_gradient) continue;
    variable_list wanted{own};
    wanted.insert(wanted.end(), task.trained.begin(), task.trained.end());
    auto found = torch::autograd::grad({sum}, wanted, {}, std::nullopt, false, /*allow_unused=*/true);
    at::NoGradGuard no_grad;
    pass.dhidden.index_copy_(0, part, found[0]);
    for (size_t i = 0; i < task.trained.size(); ++i)
      if (found[i + 1].defined())
        pass.dtrained[i] =
            pass.dtrained[i].defined() ? pass.dtrained[i] + found[i + 1].to(at::kFloat) : found[i + 1].to(at::kFloat);
  }
  return pass;
}

// Inputs: hidden, then the trained parameters of the head.
class LinearDivergence : public torch::autograd::Function<LinearDivergence> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<DivergenceTask>& task) {
    auto pass = run_rows(inputs[0], *task, true);
    variable_list saved{pass.dhidden};
    for (size_t i = 0; i < pass.dtrained.size(); ++i)
      saved.push_back(pass.dtrained[i].defined() ? pass.dtrained[i].to(inputs[i + 1].scalar_type()) : Tensor());
    ctx->save_for_backward(std::move(saved));
    return pass.sum;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result;
    for (const auto& saved : ctx->get_saved_variables())
      result.push_back(saved.defined() ? saved * grads[0].to(saved.scalar_type()) : Tensor());
    result.emplace_back();  // the task is an argument too
    return result;
  }
};

}  // namespace

TensorList trained_of_head(const model::Linear& head) {
  TensorList trained;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor.requires_grad()) trained.push_back(tensor);
  };
  add(head.weight);
  add(head.bias);
  for (const auto& adapter : head.adapters) add(adapter.a), add(adapter.b), add(adapter.magnitude);
  return trained;
}

Tensor divergence_of_logits(const Tensor& student_nv, const Tensor& teacher_nv, const DivergenceConfig& config) {
  const auto student = (student_nv / config.temperature).log_softmax(1);
  const auto teacher = (teacher_nv / config.temperature).log_softmax(1);
  if (config.beta == 0) return kl_sum(teacher, student);
  if (config.beta == 1) return kl_sum(student, teacher);
  const auto own = student + std::log1p(-config.beta), other = teacher + std::log(config.beta);
  const auto larger = at::max(own.detach(), other);
  const auto mixture = larger + ((own - larger).exp() + (other - larger).exp()).log();
  return config.beta * kl_sum(teacher, mixture) + (1 - config.beta) * kl_sum(student, mixture);
}

Tensor linear_divergence(model::CausalLM& student, const Tensor& hidden_th, const Tensor& positions_n, const AskTeacher& teacher,
                         const DivergenceConfig& config) {
  auto task = c10::make_intrusive<DivergenceTask>();
  task->student = &student;
  task->positions_n = positions_n;
  task->teacher = teacher;
  task->config = config;
  task->trained = trained_of_head(std::as_const(student).head());
  if (!at::GradMode::is_enabled()) return run_rows(hidden_th, *task, false).sum;
  TensorList inputs{hidden_th};
  inputs.insert(inputs.end(), task->trained.begin(), task->trained.end());
  return LinearDivergence::apply(at::TensorList(inputs), task);
}

}  // namespace hone::train

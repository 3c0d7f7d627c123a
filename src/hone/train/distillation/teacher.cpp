#include "hone/train/distillation/teacher.h"

#include "hone/model/decoder.h"
#include "hone/train/distillation/prompt_logprobs.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/load_model.h"
#include "hone/train/methods/compare_vocabularies.h"
#include "hone/train/methods/forward_pass.h"

namespace hone::train {
namespace {

TeacherScores most_likely(const Tensor& logits_nv, const std::optional<int64_t>& topk) {
  if (!topk) return {logits_nv, {}};
  auto [scores, indices] = logits_nv.topk(std::min(*topk, logits_nv.size(1)), 1);
  return {scores, indices};
}

// A separate frozen model. If sharded, it stays gathered until all positions have been scored.
class SeparateTeacher final : public Teacher {
 public:
  SeparateTeacher(LoadedModel& model, std::optional<int64_t> topk) : model_(model), topk_(topk) {}

  TeacherObservation observe(model::CausalLM&, const data::Batch& batch, const std::vector<std::string>&) override {
    at::NoGradGuard no_grad;
    if (model_.sharded) model_.sharded->begin_backward(/*last_of_update=*/true);
    return {.hidden_th = model_.model->hidden_states(forward_input(batch))};
  }
  TeacherScores scores(model::CausalLM&, const TeacherObservation& observed, const Tensor& positions_n) override {
    return most_likely(model_.model->logits(observed.hidden_th.index_select(0, positions_n)), topk_);
  }
  void finish() override {
    if (model_.sharded) model_.sharded->end_backward();  // nothing trains here: releases the gathered weights
  }
  model::CausalLM* model() override { return model_.is_distributed() ? nullptr : model_.model.get(); }

 private:
  LoadedModel& model_;
  std::optional<int64_t> topk_;
};

// The base model under the adapter being trained.
class BaseTeacher final : public Teacher {
 public:
  BaseTeacher(std::unique_ptr<Reference> base, std::optional<int64_t> topk) : base_(std::move(base)), topk_(topk) {}

  TeacherObservation observe(model::CausalLM& student, const data::Batch& batch, const std::vector<std::string>&) override {
    TeacherObservation observed;
    base_->with_reference(student,
                          [&](model::CausalLM& model) { observed.hidden_th = model.hidden_states(forward_input(batch)); });
    return observed;
  }
  // Without the adapters of the head.
  TeacherScores scores(model::CausalLM& student, const TeacherObservation& observed, const Tensor& positions_n) override {
    const auto& head = std::as_const(student).head();
    const auto weight = head.compute_weight();
    const auto rows_nh = observed.hidden_th.index_select(0, positions_n).to(weight.scalar_type());
    auto logits_nv = at::linear(rows_nh, weight, head.bias);
    if (auto* region = student.decoder().region) logits_nv = region->gather_vocabulary(logits_nv);
    return most_likely(logits_nv, topk_);
  }

 private:
  std::unique_ptr<Reference> base_;
  std::optional<int64_t> topk_;
};

void require_same_vocabulary(const fs::path& folder, const text::Tokenizer& tokenizer) {
  const auto difference = vocabulary_difference(tokenizer, *text::Tokenizer::load(folder), /*sizes_matter=*/false);
  if (!difference.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("the teacher {} has another vocabulary than the student: {}", folder.string(), difference),
                    "distributions are compared token by token: choose a teacher of the student's family, or let it write rows "
                    "first and train on them with sft");
}

// Stored log-probabilities may make a server unnecessary.
bool has_stored(const TeacherConfig& config) {
  std::error_code none;
  return !config.stored.empty() && fs::exists(config.stored, none) && !fs::is_empty(config.stored, none);
}

}  // namespace

void probe_teacher(const TrainingJob& job, const text::Tokenizer& tokenizer) {
  const auto* config = job.distillation                                  ? &job.distillation->teacher
                       : job.reinforcement && job.reinforcement->teacher ? &job.reinforcement->teacher->teacher
                                                                         : nullptr;
  if (!config) return;
  if (!config->folder.empty()) require_same_vocabulary(config->folder, tokenizer);
  if (has_stored(*config)) return;
  const auto vocabulary = model::read_config(job.model_folder, job.load.changes.config).vocab_size;
  const auto topk = job.distillation ? job.distillation->topk.value_or(0) : 0;
  for (const auto& server : config->servers)
    PromptLogprobsClient(server.address, config->server_timeout, vocabulary).probe(tokenizer, topk);
}

LoadedModel* load_teacher_model(const TeacherConfig& asked, const TrainingJob& job, const DistributedContext& processes,
                                const tuner::Tuned& tuned, SessionModels& models) {
  const bool beneath = asked.adapters.empty() && tuned.adapter && tuned.adapter->modules_to_save.empty() &&
                       tuned.adapter->initial.empty() && job.tuner.adapters.empty() &&
                       fs::equivalent(asked.folder, job.model_folder);
  if (beneath) return nullptr;
  auto options = processes.tensor || processes.stages ? load_options(job, processes) : job.load;
  options.changes = {};
  auto model = model::CausalLM::load(asked.folder, options);
  for (const auto& adapter : asked.adapters) tuner::merge_adapter(*model, tuner::load_adapter(*model, adapter, {}));
  return &models.add(freeze_model(job, processes, kTeacherModel, std::move(model)));
}

std::unique_ptr<Teacher> make_teacher(const TrainingJob& job, const DistributedContext& processes, const tuner::Tuned& tuned,
                                      SessionModels& models) {
  if (!job.distillation) return nullptr;
  const auto& asked = job.distillation->teacher;
  const auto topk = job.distillation->topk.value_or(0);
  const auto vocabulary = model::read_config(job.model_folder, job.load.changes.config).vocab_size;
  std::unique_ptr<Teacher> teacher;
  if (!asked.servers.empty()) {
    teacher = make_server_teacher(asked, topk, vocabulary, processes.same_rows.get());
  } else if (!asked.folder.empty()) {
    auto* separate = load_teacher_model(asked, job, processes, tuned, models);
    if (separate)
      teacher = std::make_unique<SeparateTeacher>(*separate, job.distillation->topk);
    else
      teacher = std::make_unique<BaseTeacher>(base_as_reference(tuned), job.distillation->topk);
  }
  if (asked.stored.empty()) return teacher;
  return make_stored_teacher(asked.stored, topk, std::move(teacher));
}

}  // namespace hone::train

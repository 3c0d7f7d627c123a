// The teacher of a distillation: a second model, the student's own base, a server, or what one of them said in an earlier run.
#pragma once
#include "hone/train/losses/linear_divergence.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

// What a teacher keeps of a batch until its scores are needed: a model its hidden states, others the scores of all positions.
struct TeacherObservation {
  Tensor hidden_th, scores_tk, indices_tk;
};

class Teacher {
 public:
  virtual ~Teacher() = default;
  // Before the student's own pass: everything that all of the batch is needed for. `tags`: of each sequence, for teachers that
  // share them out; empty: none was read. Every stage of a pipeline observes; the last one gives scores.
  virtual TeacherObservation observe(model::CausalLM& student, const data::Batch& batch,
                                     const std::vector<std::string>& tags) = 0;
  // Of positions of that batch.
  virtual TeacherScores scores(model::CausalLM& student, const TeacherObservation& observed, const Tensor& positions_n) = 0;
  virtual void finish() {}  // after the scores of all positions
  // The model, where it is one that can generate completions here.
  virtual model::CausalLM* model() { return nullptr; }
};

// Null where the job distills nothing. Called when `tuned` is attached and the model is not sharded yet. A teacher of its own
// becomes one of the run's models.
std::unique_ptr<Teacher> make_teacher(const TrainingJob& job, const text::Tokenizer& tokenizer,
                                      const DistributedContext& processes, const tuner::Tuned& tuned, SessionModels& models);

// The model of the run that `asked` names; null: the base model of the adapter that trains. Throws UserError(usage)
// for one of another vocabulary.
LoadedModel* load_teacher_model(const TeacherConfig& asked, const TrainingJob& job, const text::Tokenizer& tokenizer,
                                const DistributedContext& processes, const tuner::Tuned& tuned, SessionModels& models);

// Each in a file of its own. Of `peers`, which compute the same rows together, the first sends requests; null: there are none.
std::unique_ptr<Teacher> make_server_teacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary,
                                             parallel::ProcessGroup* peers);
// Stores the scores of `asked` for each sequence in a folder, and calls it only for missing ones; null: all must be there.
std::unique_ptr<Teacher> make_stored_teacher(const std::filesystem::path& folder, int64_t topk, std::unique_ptr<Teacher> asked);

}  // namespace hone::train

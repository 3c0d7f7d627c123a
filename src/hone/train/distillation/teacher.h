// The teacher of a distillation: a second model, the student's own base, a server, or stored scores of an earlier run.
#pragma once
#include "hone/train/losses/linear_divergence.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

// A teacher's result for a batch until its scores are needed: hidden states of a model, or scores of all positions.
struct TeacherObservation {
  Tensor hidden_th, scores_tk, indices_tk;
};

class Teacher {
 public:
  virtual ~Teacher() = default;
  // Call it before the student's own pass: everything that needs the full batch. `tags`: per sequence, for several teachers;
  // empty: none. Every stage of a pipeline calls it; the last one provides scores.
  virtual TeacherObservation observe(model::CausalLM& student, const data::Batch& batch,
                                     const std::vector<std::string>& tags) = 0;
  // Scores at positions of that batch.
  virtual TeacherScores scores(model::CausalLM& student, const TeacherObservation& observed, const Tensor& positions_n) = 0;
  virtual void finish() {}  // after the scores of all positions
  // The model, if it can generate completions here.
  virtual model::CausalLM* model() { return nullptr; }
};

// Null if the job distills nothing. Call it after `tuned` is attached and before the model is sharded. A separate teacher becomes
// one of the run's models.
std::unique_ptr<Teacher> make_teacher(const TrainingJob& job, const DistributedContext& processes, const tuner::Tuned& tuned,
                                      SessionModels& models);

// Before a model is loaded. Throws UserError if the teacher of a distillation or of GRPO, where there is one, does not fit this
// student: a few log-probabilities are requested from servers, and a model's vocabulary is compared.
void probe_teacher(const TrainingJob& job, const text::Tokenizer& tokenizer);

// The run's model named by `asked`; null: the base model of the adapter being trained.
LoadedModel* load_teacher_model(const TeacherConfig& asked, const TrainingJob& job, const DistributedContext& processes,
                                const tuner::Tuned& tuned, SessionModels& models);

// Throws UserError if a batch has media, which no server of a teacher is sent.
void refuse_media(const data::Batch& batch);

// Each in its own file. Of `peers`, which compute the same rows, only the first sends requests; null: there are none.
std::unique_ptr<Teacher> make_server_teacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary,
                                             parallel::ProcessGroup* peers);
// Stores the scores of `asked` for each sequence in a folder, and calls it only for missing ones; null: all must be there.
std::unique_ptr<Teacher> make_stored_teacher(const std::filesystem::path& folder, int64_t topk, std::unique_ptr<Teacher> asked);

}  // namespace hone::train

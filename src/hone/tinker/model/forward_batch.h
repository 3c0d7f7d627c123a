// forward and forward_backward of several runs: their data are packed into shared passes over the base model.
#pragma once
#include "hone/ops/linear/multi_lora.h"
#include "hone/tinker/model/contrastive_loss.h"
#include "hone/tinker/model/expert_balance.h"
#include "hone/tinker/model/pair_loss.h"
#include "hone/tinker/model/training_run.h"

namespace hone::tinker {

// A request of one run during the passes.
class ForwardTask {
 public:
  // Throws RequestError if the data do not match the loss or the model, before anything is computed. `is_repeated`: the request
  // has succeeded before, perhaps under a version that cut off fractions of targets.
  ForwardTask(model::CausalLM& model, TrainingRun& run, ForwardBackwardRequest request, int64_t max_length,
              bool is_repeated = false);

  bool done() const { return failed() || next_ == request_.data.size(); }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  bool is_users_fault() const { return is_users_fault_; }
  void fail(const std::string& why, bool users_fault);
  const std::vector<DatumLogprobs>& logprobs() const { return logprobs_; }
  double loss_sum() const { return loss_sum_; }
  const ExpertBalance& experts() const { return experts_; }
  const PairMetrics& pairs() const { return pair_metrics_; }
  const std::map<std::string, double>& similarities() const { return similarities_; }
  double seconds() const { return seconds_; }  // its share of the time of its passes

 private:
  friend class ForwardBatch;
  std::string adapter() const { return is_base_ ? "" : run_.name(); }
  size_t next_size() const;  // of the data that are computed together: a datum, a pair, or all texts that are compared
  bool shares_passes() const { return run_.shares_passes() && !contrastive_loss_; }
  TrainingRun& run_;
  ForwardBackwardRequest request_;
  bool is_base_;  // the pass has no adapter for its rows
  std::optional<PairLoss> pair_loss_;
  std::optional<ContrastiveLoss> contrastive_loss_;
  TokenLoss loss_;
  size_t next_ = 0;  // the first datum that no pass held
  std::vector<DatumLogprobs> logprobs_;
  double loss_sum_ = 0, seconds_ = 0;
  ExpertBalance experts_;
  PairMetrics pair_metrics_;
  std::map<std::string, double> similarities_;
  std::string error_;
  bool is_users_fault_ = false;
};

class ForwardBatch {
 public:
  ForwardBatch(model::CausalLM& model, int64_t batch_tokens) : model_(model), batch_tokens_(batch_tokens) {}
  // At most one task per run. The task must outlive the batch. One whose texts are compared fails if they do not fit into a pass.
  void add(ForwardTask& task);
  // One pass over at most `batch_tokens` tokens, or over one longer datum. False: all tasks are done. A failing task fails alone;
  // if the pass itself fails, this throws and the results of its tasks are undefined: in_pass() lists them.
  bool step();
  const std::vector<ForwardTask*>& in_pass() const { return in_pass_; }
  int64_t tokens_in_pass() const { return tokens_; }

 private:
  struct Part {
    ForwardTask* task;
    std::vector<const Datum*> data;
    int64_t rows = 0;
  };
  std::vector<Part> next_pass();
  std::vector<Tensor> logps_of(const std::vector<Part>& pass, const Tensor& hidden_th);
  Tensor loss_of(const Part& part, const Tensor& logps);
  Tensor contrastive_loss_of(const Part& part, const Tensor& states_sh);
  static bool is_finite(ForwardTask& task, const Tensor& loss);  // if not, the task has failed

  model::CausalLM& model_;
  int64_t batch_tokens_, tokens_ = 0;
  std::vector<ForwardTask*> tasks_, in_pass_;
};

// Log-probabilities of `targets`, one after each hidden state, with the adapters of `rows` on the head: all hidden states belong
// to consecutive ranges.
Tensor target_logps(model::CausalLM& model, const ops::LoraMapping& rows, const Tensor& hidden_th,
                    const std::vector<int64_t>& targets, double scale = 1);

}  // namespace hone::tinker

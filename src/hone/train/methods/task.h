// Tasks that a run can train a model for besides text generation: classification and regression, embedding, reranking, and
// decisions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::train {

enum class Task { causal_lm, seq_cls, embedding, reranker, generative_reranker, decision };
inline constexpr std::pair<std::string_view, Task> kTaskNames[] = {{"causal_lm", Task::causal_lm},
                                                                   {"seq_cls", Task::seq_cls},
                                                                   {"embedding", Task::embedding},
                                                                   {"reranker", Task::reranker},
                                                                   {"generative_reranker", Task::generative_reranker},
                                                                   {"decision", Task::decision}};  // ms-swift's task_type
enum class ProblemType { regression, single_label, multi_label };

// InfoNCE with ms-swift's INFONCE_* variables.
struct InfonceConfig {
  double temperature = 0.1;
  bool use_batch = true;                  // texts of other rows of the batch are negatives too
  std::optional<int64_t> hard_negatives;  // exactly this many per row: truncated, or drawn again
  bool mask_fake_negatives = false;       // a negative that is nearer than the positive by the margin does not count
  double fake_margin = 0.1;
  bool include_queries = false, include_documents = false;  // other anchors, and what is like the positive, as negatives
};

// LISTWISE_RERANKER_*.
struct ListwiseConfig {
  double temperature = 1;
  int64_t smallest_group = 2;
};

struct TaskConfig {
  Task task = Task::causal_lm;
  ProblemType problem = ProblemType::single_label;
  int64_t labels = 0;
  bool uses_value_head = false;  // the only score is the value of a text's last token (LLaMA-Factory's reward models)
  std::string loss;              // ms-swift's loss_type, of embeddings and rerankers
  InfonceConfig infonce;
  ListwiseConfig listwise;
  std::vector<std::pair<int64_t, double>>
      mrl_dims;  // the loss is a sum over these numbers of leading dimensions, with these weights
  std::string positive_word = "yes", negative_word = "no";  // what a generative reranker generates, each one token …
  text::TokenId yes = 0, no = 0;                            // … and their ids, once the tokenizer is there
  std::vector<text::TokenId> option_tokens;                 // of decisions: a token for each option of each kind of question
  double ordered_weight = 0.5, brier_weight = 1, smoothing = 0.1;  // OMNIJEV_RPS_WEIGHT, CLEF_BRIER_WEIGHT, CLEF_LABEL_SMOOTHING

  bool is_generative() const { return task == Task::causal_lm; }
};

}  // namespace hone::train

// Samples completions for the rows of a dataset and writes the best ones as a dataset, in ms-swift's format.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/data/datasets/source.h"
#include "hone/eval/sampling/best_answers.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::eval {

struct SampleConfig {
  std::filesystem::path output_dir = "sample_output";
  std::string output_file;
  bool resume = false;
  int64_t batch_size = 1;                          // rows that are answered and written together
  int64_t batches = 0;                             // at most; 0: all
  int64_t piece = 0, pieces = 1;                   // which part of the rows
  std::vector<std::filesystem::path> cache_files;  // earlier samples: their rows are not sampled again
  SelectionConfig selection;
};

// The completions of several prompts, whose messages end where the response starts; `first` is the index of the first one. An
// error is that of a bad row, with its location.
using RowCompletions = std::vector<Result<std::vector<std::string>>>;
using AnswerRows = std::function<RowCompletions(const std::vector<data::Conversation>& questions, int64_t first)>;

// Rewards of completions; either may be missing.
struct SelectionRewards {
  std::unique_ptr<train::rl::Reward> outcome, process;
};

struct SampleCounts {
  int64_t rows = 0, written = 0, dropped = 0;  // rows sampled, lines written, rows of which none was kept
  int64_t bad = 0;                             // rows that were skipped
};

// Writes output_dir/output_file atomically; progress is kept in output_file.resume, next to ckpt_state.json. Bad rows are skipped
// and reported at the end. Throws UserError.
SampleCounts sample_rows(const data::ConversationSource& rows, const AnswerRows& answer, SelectionRewards& rewards,
                         const SampleConfig& config);

}  // namespace hone::eval

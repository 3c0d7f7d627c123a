// The prompts of a run: rows up to the generation prompt, in an order that depends only on the seed.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/data/batches/make_loader.h"
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/placed_media.h"
#include "hone/data/row_report.h"

namespace hone::train::rl {

class PromptMedia;

struct Prompt {
  int64_t row = -1;
  data::Conversation question;  // without the final assistant message of the row
  std::vector<text::TokenId> ids;
  std::vector<data::Picture> pictures = {};
  std::vector<data::Sound> sounds = {};
  data::MediaSources sources = {};  // of both, in the order of the text

  bool has_media() const { return !pictures.empty() || !sounds.empty(); }

  // Prompt and completion as a sample; only the completion is trained on, except tokens whose mask is 0. Empty mask: all of it.
  data::Sample completed(const std::vector<text::TokenId>& completion, const std::vector<char>& loss_mask = {}) const;
  // For engines; null: no media.
  std::shared_ptr<const PromptMedia> media() const;
};

// A column that every row must have, and what reads it.
struct RequiredColumn {
  std::string name, reader;
};

// Requirements of a run on its prompts.
struct PromptRules {
  int64_t most_tokens;                 // more leave no room for a completion
  bool reads_teacher_prompts = false;  // the teacher's prompt of a row must be usable as well
  data::RowCheck check = {};           // of every row
  std::vector<RequiredColumn> columns = {};
  bool reads_test_cases = false;  // the reward code runs them
};

class Prompts {
 public:
  // Scans every row once; invalid rows are reported and skipped.
  Prompts(std::shared_ptr<const data::ConversationSource> rows, std::shared_ptr<const data::Encoder> encoder,
          data::RowReport& report, size_t threads, PromptRules rules);

  int64_t count() const { return static_cast<int64_t>(usable_.size()); }
  const data::Encoder& encoder() const { return *encoder_; }
  int64_t longest() const { return longest_; }  // in tokens
  bool has_media() const { return has_media_; }
  // The row at `index` of an epoch, modulo its length.
  Prompt shuffled(int64_t index, int64_t epoch, uint64_t seed) const;
  Prompt in_file_order(int64_t index) const { return load(usable_[static_cast<size_t>(index % count())]); }
  // The prompt of any row; empty if the row is invalid.
  std::optional<Prompt> find(int64_t row) const;
  // The prompt of a row that was loaded before.
  Prompt load(int64_t row) const;

 private:
  Result<Prompt> read(int64_t row) const;

  std::shared_ptr<const data::ConversationSource> rows_;
  std::shared_ptr<const data::Encoder> encoder_;
  PromptRules rules_;
  std::vector<int64_t> usable_;
  int64_t longest_ = 0;
  bool has_media_ = false;
};

}  // namespace hone::train::rl

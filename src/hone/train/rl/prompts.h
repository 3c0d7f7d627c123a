// The prompts of a run: rows up to where the model speaks, in an order that depends on the seed alone.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/row_report.h"

namespace hone::engine {
struct PromptImages;
}

namespace hone::train::rl {

struct Prompt {
  int64_t row = -1;
  data::Conversation question;  // without the answers the row may end with
  std::vector<text::TokenId> ids;
  std::vector<data::Picture> pictures = {};
  std::vector<data::Sound> sounds = {};

  bool has_media() const { return !pictures.empty() || !sounds.empty(); }

  // With a completion, which is what is learned, but for tokens whose mask is 0. An empty mask: all of it.
  data::Sample completed(const std::vector<text::TokenId>& completion, const std::vector<char>& loss_mask = {}) const;
  // For the engine; null: there are none. One that cannot be decoded is blank, and a warning names it.
  std::shared_ptr<const engine::PromptImages> images() const;
};

class Prompts {
 public:
  // Every row is looked at once; those that cannot be used, of more than `most_tokens` too, are reported and left out.
  Prompts(std::shared_ptr<const data::ConversationSource> rows, std::shared_ptr<const data::Encoder> encoder,
          data::RowReport& report, size_t threads, int64_t most_tokens);

  int64_t count() const { return static_cast<int64_t>(usable_.size()); }
  int64_t longest() const { return longest_; }  // in tokens
  bool has_media() const { return has_media_; }
  // The `place`-th of an epoch; beyond its end the epoch begins again.
  Prompt shuffled(int64_t place, int64_t epoch, uint64_t seed) const;
  Prompt in_file_order(int64_t place) const { return load(usable_[static_cast<size_t>(place % count())]); }
  // Of any row; nothing where it cannot be used.
  std::optional<Prompt> find(int64_t row) const;
  // Of a row that was loaded before.
  Prompt load(int64_t row) const;

 private:
  Result<Prompt> read(int64_t row) const;

  std::shared_ptr<const data::ConversationSource> rows_;
  std::shared_ptr<const data::Encoder> encoder_;
  int64_t most_tokens_;
  std::vector<int64_t> usable_;
  int64_t longest_ = 0;
  bool has_media_ = false;
};

}  // namespace hone::train::rl

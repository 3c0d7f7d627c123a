// Log-probabilities of prompts behind an OpenAI-compatible address, as vLLM, ms-swift and hone serve them.
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/conversation.h"
#include "hone/train/distillation/config.h"

namespace hone::train {

class PromptLogprobsClient {
 public:
  struct TokenLogp {
    int64_t token;
    float logp;
  };
  using Position = std::vector<TokenLogp>;  // the most likely first

  // `vocabulary`: how many tokens the student knows.
  PromptLogprobsClient(const std::string& address, double timeout, int64_t vocabulary);

  // Of every token of every sequence, what the position before it predicts: the token itself and at least the `topk` most likely
  // ones. The first of a sequence has none. Throws UserError where the server gives something else, or nothing in time.
  std::vector<std::vector<Position>> ask(const std::vector<std::vector<int64_t>>& sequences, int64_t topk) const;

 private:
  Position read_position(const Json& entry, int64_t topk) const;
  int64_t read_id(const std::string& text) const;
  Json post(const Json& question) const;
  UserError misunderstood(const std::string& found) const;

  std::string address_;
  double timeout_;
  int64_t vocabulary_;
};

// Which of several servers each sequence goes to, by its tag. Throws UserError(bad_data) for a tag that none takes.
std::vector<size_t> route_by_tag(const std::vector<TeacherServer>& servers, const std::vector<std::string>& tags);
// A row's tag: its column `key`, or the dataset it is of.
std::string teacher_tag(const data::Conversation& row, const std::string& key);

}  // namespace hone::train

// Prompt log-probabilities from an OpenAI-compatible server, as in vLLM, ms-swift and hone.
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/conversation.h"
#include "hone/text/tokenizer.h"
#include "hone/train/distillation/config.h"

namespace hone::train {

class PromptLogprobsClient {
 public:
  struct TokenLogp {
    int64_t token;
    float logp;
  };
  using Position = std::vector<TokenLogp>;  // the most likely first

  // `vocabulary`: the student's vocabulary size.
  PromptLogprobsClient(const std::string& address, double timeout, int64_t vocabulary);

  // For every token of every sequence, the prediction at the position before it: the token itself and at least the `topk` most
  // likely ones. The first token has none. Throws UserError on an invalid response or a timeout.
  std::vector<std::vector<Position>> ask(const std::vector<std::vector<int64_t>>& sequences, int64_t topk) const;
  // One request, before anything expensive: waits for the server. Throws UserError if its response lacks what `ask` needs, or
  // its token ids differ from the student's.
  void probe(const text::Tokenizer& student, int64_t topk) const;

 private:
  std::vector<Json> ask_entries(const std::vector<std::vector<int64_t>>& sequences, int64_t topk, const std::string& hint) const;
  Position read_position(const Json& entry, int64_t topk) const;
  int64_t read_id(const std::string& text) const;
  void require_same_token(int64_t id, const Json& entry, const text::Tokenizer& student) const;
  Json post(const Json& question, const std::string& hint) const;
  UserError misunderstood(const std::string& found) const;

  std::string address_, shown_;
  double timeout_;
  int64_t vocabulary_;
};

// Assigns each sequence to a server by its tag. Throws UserError(bad_data) for an unknown tag.
std::vector<size_t> route_by_tag(const std::vector<TeacherServer>& servers, const std::vector<std::string>& tags);
// A row's tag: its column `key`, or its dataset.
std::string teacher_tag(const data::Conversation& row, const std::string& key);

}  // namespace hone::train

// Beam search: several candidates of one prompt, computed together; the most likely continue. It follows transformers' generate.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "hone/engine/scheduler.h"

namespace hone::engine {

class BeamSearch {
 public:
  // Starts with one sequence, the prompt, which is expanded to the number of beams.
  explicit BeamSearch(std::unique_ptr<Sequence> prompt);

  // Candidates that may follow one beam. Different threads may consider different beams.
  void add_candidates(Sequence& beam, std::span<float> logits);
  bool ready() const;  // every beam has been considered
  // Chooses the beams that continue, which need new ids and blocks. False: the search has ended.
  bool advance(Scheduler& scheduler, RequestId& next_id, ForkCopies& copies);

  // The requested number of completions, best first; the search has ended.
  std::vector<RequestOutput> completions();
  const Request& request() const { return beams_[0].sequence->request; }
  std::vector<Sequence*> sequences() const;

 private:
  struct Beam {
    std::unique_ptr<Sequence> sequence;
    RequestOutput output;  // its completion so far
    float score = 0;       // log-probability of it
    std::vector<BeamCandidate> continuations;
    std::vector<PositionLogprobs> logprobs;  // of the continuations, on request
    std::string error;                       // why it has none, when it has none
    bool has_nan = false;                    // … because the model computed NaN
  };
  struct Branch {  // a beam and one more token
    size_t parent = 0;
    std::unique_ptr<Sequence> sequence;
    RequestOutput output;
    float score = 0;
  };
  struct RankedCandidate {
    size_t beam, continuation;  // indices
    float score, order;
  };
  struct Finished {
    RequestOutput output;
    float score;  // by the length penalty
  };

  const SamplingParams& params() const { return request().sampling; }
  float by_length(float score, int64_t length) const;
  std::vector<RankedCandidate> best_candidates() const;
  Branch grow(const RankedCandidate& candidate) const;
  void keep_finished(RequestOutput output, float score);
  bool is_over(const std::vector<Branch>& survivors) const;
  void fork_beams(std::vector<Branch> survivors, Scheduler& scheduler, RequestId& next_id, ForkCopies& copies);

  RequestId id_;
  size_t width_, kept_;  // beams; candidates, enough even if some end
  int64_t length_ = 0;   // of the completions so far
  std::vector<Beam> beams_;
  std::vector<Finished> finished_;  // at most `width_`, best first
  std::string error_;               // that some beam ended with
  bool has_nan_ = false;            // some beam's logits had
};

}  // namespace hone::engine

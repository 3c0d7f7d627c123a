// Processes that compute the same rows together, because layers are sharded across them or blocks are in stages, ask the same
// questions. Each of them, or each group of tensor parallel ranks, generates the completions of a part of them.
#include "hone/base/error.h"
#include "hone/base/stable_hash.h"
#include "hone/train/rl/rollout_engine.h"

namespace hone::train::rl {
namespace {

class PeerEngine final : public RolloutEngine {
 public:
  PeerEngine(std::unique_ptr<RolloutEngine> engine, parallel::ProcessGroup& peers, int ranks_per_part)
      : engine_(std::move(engine)), peers_(peers), ranks_per_part_(ranks_per_part) {}

  void begin(const std::vector<Question>& questions, int64_t version) override { engine_->begin(own(questions), version); }
  void begin_again(const std::vector<Question>& questions) override { engine_->begin_again(own(questions)); }

  std::vector<GeneratedCompletion> finish(bool may_stop) override {
    Json described = Json::array();
    for (const auto& completion : engine_->finish(may_stop)) described.push_back(completion_json(completion));
    const auto own = described.dump(-1, ' ', false, Json::error_handler_t::replace);
    const bool speaks = peers_.rank() % ranks_per_part_ == 0;
    const auto texts = peers_.gather_text(speaks ? own : digest(own));
    std::vector<GeneratedCompletion> all;
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      const auto& of_part = texts[rank - rank % static_cast<size_t>(ranks_per_part_)];
      if (&of_part != &texts[rank]) {
        HONE_CHECK(texts[rank] == digest(of_part), "tensor parallel ranks sampled different completions");
        continue;
      }
      auto part = parse_json(of_part);
      HONE_CHECK(part.ok(), "another process sent something else than JSON: {}", part.error());
      for (const auto& completion : *part) all.push_back(completion_of(completion));
    }
    return all;
  }
  std::vector<std::pair<std::string, double>> metrics() const override { return engine_->metrics(); }

 private:
  std::vector<Question> own(const std::vector<Question>& questions) const {
    const PeerPart part(peers_, questions.size(), ranks_per_part_);
    return {questions.begin() + static_cast<ptrdiff_t>(part.begin), questions.begin() + static_cast<ptrdiff_t>(part.end)};
  }

  static std::string digest(const std::string& text) { return std::to_string(stable_hash(text)); }

  std::unique_ptr<RolloutEngine> engine_;
  parallel::ProcessGroup& peers_;
  int ranks_per_part_;
};

}  // namespace

PeerPart::PeerPart(const parallel::ProcessGroup& peers, size_t count, int ranks_per_part) {
  const auto rank = static_cast<size_t>(peers.rank() / ranks_per_part), size = static_cast<size_t>(peers.size() / ranks_per_part);
  begin = rank * count / size;
  end = (rank + 1) * count / size;
}

std::unique_ptr<RolloutEngine> make_peer_engine(std::unique_ptr<RolloutEngine> engine, parallel::ProcessGroup& peers,
                                                int ranks_per_part) {
  return std::make_unique<PeerEngine>(std::move(engine), peers, ranks_per_part);
}

}  // namespace hone::train::rl

// Processes that compute the same rows together, because layers are sharded across them or blocks are in stages, ask the same
// questions. Each generates the completions of a part of them.
#include "hone/base/error.h"
#include "hone/train/rl/rollout_engine.h"

namespace hone::train::rl {
namespace {

class PeerEngine final : public RolloutEngine {
 public:
  PeerEngine(std::unique_ptr<RolloutEngine> engine, parallel::ProcessGroup& peers) : engine_(std::move(engine)), peers_(peers) {}

  void begin(const std::vector<Question>& questions, int64_t version) override { engine_->begin(own(questions), version); }
  void begin_again(const std::vector<Question>& questions) override { engine_->begin_again(own(questions)); }

  std::vector<GeneratedCompletion> finish(bool may_stop) override {
    Json described = Json::array();
    for (const auto& completion : engine_->finish(may_stop)) described.push_back(completion_json(completion));
    std::vector<GeneratedCompletion> all;
    for (const auto& text : peers_.gather_text(described.dump(-1, ' ', false, Json::error_handler_t::replace))) {
      auto part = parse_json(text);
      HONE_CHECK(part.ok(), "another process sent something else than JSON: {}", part.error());
      for (const auto& completion : *part) all.push_back(completion_of(completion));
    }
    return all;
  }
  std::vector<std::pair<std::string, double>> metrics() const override { return engine_->metrics(); }

 private:
  std::vector<Question> own(const std::vector<Question>& questions) const {
    const PeerPart part(peers_, questions.size());
    return {questions.begin() + static_cast<ptrdiff_t>(part.begin), questions.begin() + static_cast<ptrdiff_t>(part.end)};
  }

  std::unique_ptr<RolloutEngine> engine_;
  parallel::ProcessGroup& peers_;
};

}  // namespace

PeerPart::PeerPart(const parallel::ProcessGroup& peers, size_t count) {
  const auto rank = static_cast<size_t>(peers.rank()), size = static_cast<size_t>(peers.size());
  begin = rank * count / size;
  end = (rank + 1) * count / size;
}

std::unique_ptr<RolloutEngine> make_peer_engine(std::unique_ptr<RolloutEngine> engine, parallel::ProcessGroup& peers) {
  return std::make_unique<PeerEngine>(std::move(engine), peers);
}

}  // namespace hone::train::rl

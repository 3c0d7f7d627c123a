// A teacher on one or several servers: the top-k log-probabilities of sequences.
#include "hone/base/error.h"
#include "hone/train/distillation/prompt_logprobs.h"
#include "hone/train/distillation/teacher.h"

namespace hone::train {
namespace {

class ServerTeacher final : public Teacher {
 public:
  ServerTeacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary, parallel::ProcessGroup* peers)
      : servers_(config.servers), topk_(topk), peers_(peers) {
    for (const auto& server : servers_) clients_.emplace_back(server.address, config.server_timeout, vocabulary);
  }

  TeacherObservation observe(model::CausalLM&, const data::Batch& batch, const std::vector<std::string>& tags) override {
    TeacherObservation observed{.scores_tk = at::zeros({batch.segments.total(), topk_}, at::kFloat),
                                .indices_tk = at::zeros({batch.segments.total(), topk_}, at::kLong)};
    refuse_media(batch);
    if (!peers_ || peers_->rank() == 0) ask(batch, tags, observed);
    if (peers_) {
      peers_->broadcast(observed.scores_tk, 0);
      peers_->broadcast(observed.indices_tk, 0);
    }
    return {.scores_tk = observed.scores_tk.to(batch.tokens_t.device()),
            .indices_tk = observed.indices_tk.to(batch.tokens_t.device())};
  }

  TeacherScores scores(model::CausalLM&, const TeacherObservation& observed, const Tensor& positions_n) override {
    return {observed.scores_tk.index_select(0, positions_n), observed.indices_tk.index_select(0, positions_n)};
  }

 private:
  void ask(const data::Batch& batch, const std::vector<std::string>& tags, TeacherObservation& observed) const {
    const auto tokens = batch.tokens_t.to(at::kCPU);
    const auto* ids = tokens.const_data_ptr<int64_t>();
    const auto count = static_cast<size_t>(batch.segments.count());
    const auto route = servers_.size() > 1 ? route_by_tag(servers_, tags) : std::vector<size_t>(count, 0);
    HONE_CHECK(route.size() == count, "a tag for each sequence");
    for (size_t s = 0; s < servers_.size(); ++s) {
      std::vector<size_t> own;
      std::vector<std::vector<int64_t>> sequences;
      for (size_t i = 0; i < count; ++i) {
        if (route[i] != s) continue;
        const auto begin = batch.segments.offsets[i];
        sequences.emplace_back(ids + begin, ids + begin + batch.segments.length(static_cast<int64_t>(i)));
        own.push_back(i);
      }
      if (own.empty()) continue;
      const auto logprobs = clients_[s].ask(sequences, topk_);
      for (size_t k = 0; k < own.size(); ++k) keep(logprobs[k], batch.segments.offsets[own[k]], observed);
    }
  }

  // The server reports a token's distribution at the token; the position before predicts it.
  void keep(const std::vector<PromptLogprobsClient::Position>& positions, int64_t begin, TeacherObservation& observed) const {
    for (size_t t = 1; t < positions.size(); ++t)
      for (int64_t k = 0; k < topk_; ++k) {
        const auto index = (begin + static_cast<int64_t>(t) - 1) * topk_ + k;
        observed.scores_tk.mutable_data_ptr<float>()[index] = positions[t][static_cast<size_t>(k)].logp;
        observed.indices_tk.mutable_data_ptr<int64_t>()[index] = positions[t][static_cast<size_t>(k)].token;
      }
  }

  std::vector<TeacherServer> servers_;
  std::vector<PromptLogprobsClient> clients_;
  int64_t topk_;
  parallel::ProcessGroup* peers_;
};

}  // namespace

void refuse_media(const data::Batch& batch) {
  if (!batch.images.rows_n.defined() && !batch.audio.rows_n.defined()) return;
  throw UserError(ExitCode::usage, "completions with media, and a teacher on a server, which is sent text alone",
                  "load the teacher into the run (`teacher.folder`)");
}

std::unique_ptr<Teacher> make_server_teacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary,
                                             parallel::ProcessGroup* peers) {
  return std::make_unique<ServerTeacher>(config, topk, vocabulary, peers);
}

}  // namespace hone::train

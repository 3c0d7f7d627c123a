// A teacher behind an OpenAI-compatible address: the top-k log-probabilities of prompts, as vLLM, ms-swift and hone serve them.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "hone/hub/post_json.h"
#include "hone/train/distillation/teacher.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train {
namespace {

class ServerTeacher final : public Teacher {
 public:
  ServerTeacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary)
      : address_(config.server), timeout_(config.server_timeout), topk_(topk), vocabulary_(vocabulary) {
    while (address_.ends_with('/')) address_.pop_back();
    if (!address_.ends_with("/v1")) address_ += "/v1";
    address_ += "/completions";
  }

  void observe(model::CausalLM&, const data::Batch& batch) override {
    const auto tokens = batch.tokens_t.to(at::kCPU);
    const auto* ids = tokens.const_data_ptr<int64_t>();
    Json prompts = Json::array();
    for (int64_t i = 0; i < batch.segments.count(); ++i) {
      const auto begin = batch.segments.offsets[static_cast<size_t>(i)];
      prompts.push_back(std::vector<int64_t>(ids + begin, ids + begin + batch.segments.length(i)));
    }
    const auto reply = asked({{"prompt", prompts}, {"max_tokens", 1}, {"temperature", 0}, {"prompt_logprobs", topk_}});
    scores_tk_ = at::zeros({batch.segments.total(), topk_}, at::kFloat);
    indices_tk_ = at::zeros({batch.segments.total(), topk_}, at::kLong);
    const auto& choices = reply.contains("choices") ? reply["choices"] : Json();
    if (!choices.is_array() || choices.size() != prompts.size()) throw misunderstood("no choice for each of the sequences");
    for (size_t i = 0; i < choices.size(); ++i)
      read_sequence(choices[i], batch.segments.offsets[i], batch.segments.length(static_cast<int64_t>(i)));
    scores_tk_ = scores_tk_.to(batch.tokens_t.device());
    indices_tk_ = indices_tk_.to(batch.tokens_t.device());
  }

  TeacherScores scores(model::CausalLM&, const Tensor& positions_n) override {
    return {scores_tk_.index_select(0, positions_n), indices_tk_.index_select(0, positions_n)};
  }

 private:
  // What is said of a token stands with it; it is what the position before predicts.
  void read_sequence(const Json& choice, int64_t begin, int64_t length) {
    const auto& list = choice.is_object() && choice.contains("prompt_logprobs") ? choice["prompt_logprobs"] : Json();
    if (!list.is_array() || static_cast<int64_t>(list.size()) != length)
      throw misunderstood("no prompt_logprobs for each of the tokens");
    for (int64_t t = 1; t < length; ++t) read_position(list[static_cast<size_t>(t)], begin + t - 1);
  }

  void read_position(const Json& said, int64_t position) {
    std::vector<std::pair<double, int64_t>> tokens;
    if (said.is_object())
      for (const auto& [id, about] : said.items()) {
        const auto token = read_id(id);
        if (!about.is_object() || !about.contains("logprob") || !about["logprob"].is_number())
          throw misunderstood("an entry of prompt_logprobs without logprob");
        if (const double logp = about["logprob"].get<double>(); std::isfinite(logp)) tokens.emplace_back(-logp, token);
      }
    if (static_cast<int64_t>(tokens.size()) < topk_)
      throw misunderstood(fmt::format("{} of the {} most likely tokens", tokens.size(), topk_));
    std::ranges::sort(tokens);
    for (int64_t k = 0; k < topk_; ++k) {
      scores_tk_.mutable_data_ptr<float>()[position * topk_ + k] = static_cast<float>(-tokens[static_cast<size_t>(k)].first);
      indices_tk_.mutable_data_ptr<int64_t>()[position * topk_ + k] = tokens[static_cast<size_t>(k)].second;
    }
  }

  int64_t read_id(const std::string& text) const {
    int64_t id = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (problem != std::errc() || end != text.data() + text.size()) id = -1;
    if (id < 0) throw misunderstood(fmt::format("the token id \"{}\"", text.substr(0, 40)));
    if (id >= vocabulary_)
      throw UserError(ExitCode::usage,
                      fmt::format("the teacher at {} speaks of token {}, and the student knows {}", address_, id, vocabulary_),
                      "distributions are compared token by token: serve a teacher of the student's family");
    return id;
  }

  Json asked(const Json& question) const {
    hub::PostOptions posting{.timeout = std::chrono::seconds(static_cast<int64_t>(std::ceil(timeout_))),
                             .is_cancelled = [] { return StopSignal::requested() == Stop::interrupt; }};
    try {
      auto reply = parse_json(hub::post_json(address_, question.dump(), posting));
      if (!reply || !reply->is_object()) throw misunderstood("no JSON object");
      return *reply;
    } catch (const std::runtime_error& problem) {
      if (dynamic_cast<const UserError*>(&problem)) throw;
      throw UserError(ExitCode::failure, fmt::format("the teacher at {} did not answer: {}", address_, problem.what()),
                      "see that it runs and serves prompt_logprobs; `teacher_timeout` sets how long it may take. Resume the run "
                      "from its last checkpoint with `resume_from_checkpoint`");
    }
  }

  UserError misunderstood(const std::string& found) const {
    return UserError(ExitCode::failure, fmt::format("the teacher at {} returned {}", address_, found),
                     "expected choices with prompt_logprobs by token id, as vLLM and `hone deploy` give them");
  }

  std::string address_;
  double timeout_;
  int64_t topk_, vocabulary_;
  Tensor scores_tk_, indices_tk_;
};

}  // namespace

std::unique_ptr<Teacher> make_server_teacher(const TeacherConfig& config, int64_t topk, int64_t vocabulary) {
  return std::make_unique<ServerTeacher>(config, topk, vocabulary);
}

}  // namespace hone::train

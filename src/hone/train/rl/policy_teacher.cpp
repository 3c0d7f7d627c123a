#include "hone/train/rl/policy_teacher.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/data/batches/collator.h"
#include "hone/train/distillation/teacher.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/losses/policy.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train::rl {
namespace {

// The prompt for the teacher; the policy's prompt if the row has no other. Text that the policy or an environment wrote must not
// name files that are read: <img>path</img>.
data::RolloutPrompt teacher_prompt(const RolloutSample& sample, const data::Encoder& encoder) {
  const auto& prompt = *sample.prompt;
  data::RolloutPrompt own{prompt.ids, prompt.pictures, prompt.sounds};
  if (!has_teacher_prompt(prompt.question)) return own;
  auto row = prompt.question;
  if (sample.turns.own_prompt) row.origin = {};
  auto encoded = encode_teacher_prompt(encoder, std::move(row));
  if (encoded) return std::move(*encoded);
  log::warning("{}: teacher_prompt is skipped: {}", prompt.question.origin.str(), encoded.error());
  return own;
}

// Maps positions of the completions in `seen` to those in `batch`; completions are at the end of both sequences.
Tensor moved_to(const data::Batch& batch, const data::Batch& seen, const Tensor& logps_t, const TrainingRounds& samples) {
  auto moved_t = at::zeros({batch.segments.total()}, at::kFloat);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto length = static_cast<int64_t>(samples[i]->completion.tokens.size());
    const auto end = batch.segments.offsets[i + 1] - 1, seen_end = seen.segments.offsets[i + 1] - 1;
    moved_t.narrow(0, end - length, length).copy_(logps_t.narrow(0, seen_end - length, length));
  }
  return moved_t.masked_fill_(batch.targets_t == data::kIgnore, 0);
}

}  // namespace

data::Batch teacher_batch(const TrainingRounds& samples, const data::Encoder& encoder) {
  std::vector<data::SamplePack> packs;
  const Prompt* before = nullptr;
  data::RolloutPrompt prompt;
  for (const auto* rolled : samples) {
    if (rolled->prompt.get() != before) prompt = teacher_prompt(*rolled, encoder);
    before = rolled->prompt.get();
    data::Sample sample{.ids = prompt.ids, .labels = std::vector<text::TokenId>(prompt.ids.size(), data::kIgnore)};
    const auto& tokens = rolled->completion.tokens;
    sample.ids.insert(sample.ids.end(), tokens.begin(), tokens.end());
    sample.labels.insert(sample.labels.end(), tokens.begin(), tokens.end());
    sample.pictures = prompt.pictures;
    sample.sounds = prompt.sounds;
    add_media(rolled->turns.media, prompt.ids.size(), sample);
    packs.push_back({std::move(sample)});
  }
  return data::collate(packs, data::PackMask::separate);
}

PolicyTeacher::PolicyTeacher(const PolicyTeacherConfig& config, std::unique_ptr<Reference> model, int64_t vocabulary)
    : config_(config), model_(std::move(model)) {
  for (const auto& server : config_.teacher.servers)
    clients_.emplace_back(server.address, config_.teacher.server_timeout, vocabulary);
}

Tensor PolicyTeacher::logps(model::CausalLM& policy, const data::Batch& batch, const TrainingRounds& samples, const View& view) {
  const auto seen = teacher_batch(samples, *view.encoder);
  Tensor logps_t;
  if (model_)
    model_->with_reference(policy, [&](model::CausalLM& model) {
      logps_t = policy_logps(model, seen.to(model.device()), view.temperature, view.sequence).to(at::kCPU);
    });
  else
    logps_t = ask_servers(seen, samples, view);
  return moved_to(batch, seen, logps_t, samples);
}

// If a server fails for one process, all processes stop before they wait for each other.
Tensor PolicyTeacher::ask_servers(const data::Batch& seen, const TrainingRounds& samples, const View& view) const {
  auto logps_t = at::zeros({seen.segments.total()}, at::kFloat);
  std::optional<UserError> problem;
  try {
    refuse_media(seen);
    std::vector<std::string> tags;
    for (const auto* rolled : samples) tags.push_back(teacher_tag(rolled->prompt->question, config_.teacher.tag_key));
    const auto route = route_by_tag(config_.teacher.servers, tags);
    const auto* ids = seen.tokens_t.const_data_ptr<int64_t>();
    const auto [first, last] = view.peers ? PeerPart(*view.peers, samples.size()) : PeerPart{0, samples.size()};
    for (size_t i = first; i < last; ++i) {
      const auto begin = seen.segments.offsets[i];
      const std::vector<int64_t> sequence(ids + begin, ids + begin + seen.segments.length(static_cast<int64_t>(i)));
      const auto logprobs = clients_[route[i]].ask({sequence}, 0).front();
      for (size_t t = 1; t < sequence.size(); ++t) {
        const auto own = std::ranges::find(logprobs[t], sequence[t], &PromptLogprobsClient::TokenLogp::token);
        if (own == logprobs[t].end())
          throw UserError(ExitCode::failure, fmt::format("the teacher gave no log-probability of token {}", sequence[t]),
                          "serve a teacher of the student's family that includes a prompt's own tokens, as vLLM and `hone "
                          "deploy` do");
        logps_t.mutable_data_ptr<float>()[begin + static_cast<int64_t>(t) - 1] = own->logp;
      }
    }
  } catch (const UserError& found) {
    problem = found;
  }
  if (view.strategy.any(problem.has_value()))
    throw FailedBetweenSteps(
        problem.value_or(UserError(ExitCode::failure, "a teacher did not answer another process; its own log says why")));
  if (view.peers) view.peers->all_reduce(logps_t)->wait();  // zero where another process asked
  return logps_t;
}

Tensor advantages_with_teacher(const PolicyTeacherConfig& config, const Tensor& base_t, const Tensor& teacher_t,
                               const Tensor& old_t, int64_t step) {
  const auto gap_t = teacher_t - old_t;
  if (!config.reweight) return base_t + config.kl_coef * gap_t;
  const auto& reweight = *config.reweight;
  const double lambda = reweight.lambda_at(step);
  auto weights_t = (at::sign(base_t) * gap_t).exp().clamp(1 - reweight.clip_range, 1 + reweight.clip_range);
  weights_t = (1 - lambda) + lambda * weights_t;
  if (reweight.negative_only) weights_t = at::where(base_t < 0, weights_t, at::ones_like(weights_t));
  return base_t * weights_t;
}

std::unique_ptr<PolicyTeacher> make_policy_teacher(const TrainingJob& job, const DistributedContext& processes,
                                                   const tuner::Tuned& tuned, SessionModels& models) {
  if (!job.reinforcement || !job.reinforcement->teacher) return nullptr;
  const auto& config = *job.reinforcement->teacher;
  std::unique_ptr<Reference> model;
  if (config.is_policy()) {
    model = policy_as_reference();
  } else if (config.teacher.servers.empty()) {
    auto* separate = load_teacher_model(config.teacher, job, processes, tuned, models);
    model = separate ? model_as_reference(*separate) : base_as_reference(tuned);
  }
  const auto vocabulary = model::read_config(job.model_folder, job.load.changes.config).vocab_size;
  return std::make_unique<PolicyTeacher>(config, std::move(model), vocabulary);
}

}  // namespace hone::train::rl

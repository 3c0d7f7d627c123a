#include "hone/train/losses/kto.h"

#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

// The rows in [begin, begin + length) of a batch's media, relative to `begin`. size(i): of the medium's own data, which
// take(i, offset) copies if its rows are there.
template <class Size, class Take>
Tensor media_rows_between(const Tensor& rows_n, const std::vector<int64_t>& tokens, int64_t begin, int64_t length, Size size,
                          Take take) {
  if (tokens.empty()) return {};
  const auto positions_n = rows_n.cpu();  // one copy from the device for all media
  const auto* positions = positions_n.const_data_ptr<int64_t>();
  TensorList rows;
  int64_t row = 0, offset = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (positions[row] >= begin && positions[row] < begin + length) {
      rows.push_back(rows_n.narrow(0, row, tokens[i]) - begin);
      take(i, offset);
    }
    row += tokens[i], offset += size(i);
  }
  return rows.empty() ? Tensor() : at::cat(rows);
}

data::BatchImages images_between(const data::BatchImages& all, int64_t begin, int64_t length) {
  data::BatchImages part;
  TensorList patches;
  auto size = [&](size_t i) { return all.grids[i].patches(); };
  part.rows_n = media_rows_between(all.rows_n, all.tokens, begin, length, size, [&](size_t i, int64_t offset) {
    patches.push_back(all.patches_pr.narrow(0, offset, size(i)));
    part.grids.push_back(all.grids[i]);
    part.tokens.push_back(all.tokens[i]);
  });
  if (!patches.empty()) part.patches_pr = at::cat(patches);
  return part;
}

data::BatchAudio audio_between(const data::BatchAudio& all, int64_t begin, int64_t length) {
  data::BatchAudio part;
  TensorList frames;
  auto size = [&](size_t i) { return all.lengths[i]; };
  part.rows_n = media_rows_between(all.rows_n, all.tokens, begin, length, size, [&](size_t i, int64_t offset) {
    frames.push_back(all.frames_fm.narrow(0, offset, size(i)));
    part.lengths.push_back(all.lengths[i]);
    part.tokens.push_back(all.tokens[i]);
  });
  if (!frames.empty()) part.frames_fm = at::cat(frames);
  return part;
}

// Extracts full sequences from a batch.
data::Batch sequences_of(const data::Batch& batch, int64_t first, int64_t count) {
  const int64_t begin = batch.segments.offsets[static_cast<size_t>(first)],
                length = batch.segments.offsets[static_cast<size_t>(first + count)] - begin;
  data::Batch part;
  for (int64_t i = first; i < first + count; ++i) part.segments.append(batch.segments.length(i));
  part.tokens_t = batch.tokens_t.narrow(0, begin, length);
  part.positions_t = batch.positions_t.narrow(-1, begin, length);
  part.images = images_between(batch.images, begin, length);
  part.audio = audio_between(batch.audio, begin, length);
  part.targets_t = batch.targets_t.narrow(0, begin, length);
  part.target_count = -1;
  return part;
}

struct RowLogps {
  Tensor sums_s, logits_s;  // per completion: log-probabilities, and logits summed over tokens and vocabulary
};

// `sequence`: a sequence is split over processes, and each computes the sums over all of them, with its own gradients. The
// sequences may be followed by one of padding.
RowLogps row_logps(const ForwardOutputs& outputs, const parallel::SequenceParallel* sequence) {
  auto found = outputs.target_logps();
  if (sequence)
    for (auto* values_t : {&found.logps_t, &found.mean_logits_t})
      *values_t = whole_rows(*values_t, outputs.batch.segments.total(), *sequence);
  auto numbers_t = sequence_ids(outputs.batch.segments, outputs.hidden_th.device());
  auto over_completions = [&](const Tensor& values_t) {
    return sum_by_sequence(values_t, numbers_t, outputs.batch.segments.count());
  };
  return {over_completions(found.logps_t),
          over_completions(found.mean_logits_t) * static_cast<double>(outputs.model.config().vocab_size)};
}

Tensor token_counts(const data::Batch& batch, const parallel::SequenceParallel* sequence) {
  auto numbers_t = sequence_ids(batch.segments, batch.targets_t.device());
  auto labelled_t = (batch.targets_t != ops::kIgnoredTarget).to(at::kFloat);
  if (sequence) labelled_t = whole_rows(labelled_t, batch.segments.total(), *sequence);
  return sum_by_sequence(labelled_t, numbers_t, batch.segments.count());
}

}  // namespace

data::PayloadCollator KtoPayload::collator() {
  return [](const std::vector<const data::Sample*>& completions) {
    auto payload = std::make_shared<KtoPayload>();
    std::vector<bool> desirable;
    for (const auto* completion : completions)
      if (!completion->sequence_labels.empty()) desirable.push_back(completion->sequence_labels.front() > 0);
    payload->desirable = at::empty({static_cast<int64_t>(desirable.size())}, at::kBool);
    std::ranges::copy(desirable, payload->desirable.mutable_data_ptr<bool>());
    payload->num_desirable = std::ranges::count(desirable, true);
    payload->kl_pairs = static_cast<int64_t>(completions.size() - desirable.size());
    return payload;
  };
}

Tensor kto_losses(const KtoLogRatios& rows, const Tensor& kl, const PreferenceConfig& config) {
  auto ahead = config.beta * (rows.ratios - kl);
  auto good = 1 - ahead.sigmoid(), bad = 1 - (-ahead).sigmoid();
  return at::where(rows.desirable, good * config.desirable_weight, bad * config.undesirable_weight);
}

// A mean over the KL pairs of each process, then over processes; nothing if no process has any.
Tensor KtoLoss::kl_estimate(const Tensor& policy_m, const Tensor& reference_m) const {
  auto found = at::zeros({2}, policy_m.options().dtype(at::kFloat));
  if (policy_m.size(0) > 0) found = at::stack({(policy_m - reference_m).mean(), at::ones({}, found.options())});
  if (group_ && group_->size() > 1) group_->all_reduce(found);
  return (found[0] / found[1].clamp_min(1)).clamp_min(0);
}

void KtoLoss::consult(model::CausalLM& model, const data::Batch& batch, KtoPayload& payload) {
  const int64_t rows = payload.desirable.size(0), kl_pairs = payload.kl_pairs;
  auto completion_logps = [&](model::CausalLM& asked, const data::Batch& completions) {
    return row_logps(run_forward(asked, {.batch = completions}), sequence_).sums_s;
  };
  reference_.with_reference(model, [&](model::CausalLM& reference) {
    payload.reference_logps = completion_logps(reference, batch).narrow(0, 0, rows + kl_pairs);
  });
  if (!config_.estimates_kl || sequence_) return;
  EvaluationMode mode(model);  // every process takes part, even if all its KL pairs were too long
  payload.kl_pair_logps =
      completion_logps(model, kl_pairs > 0 ? sequences_of(batch, rows, kl_pairs) : sequences_of(batch, 0, rows))
          .narrow(0, 0, kl_pairs);
}

// Only the rows' own completions train. Split sequences cannot be extracted from a batch: there the pass includes KL pairs.
ForwardRequest KtoLoss::request(const data::Batch& batch) const {
  if (sequence_) return {.batch = batch, .router_logits = router_.any()};
  return {.batch = sequences_of(batch, 0, batch.sample_count), .router_logits = router_.any()};
}

LossSum KtoLoss::loss(const ForwardOutputs& outputs, const KtoPayload& payload) {
  const auto& own = outputs.batch;
  const int64_t rows = payload.desirable.size(0), kl_pairs = payload.kl_pairs;
  const auto all = row_logps(outputs, sequence_);
  const RowLogps policy{all.sums_s.narrow(0, 0, rows), all.logits_s.narrow(0, 0, rows)};
  auto kl_pair_logps = sequence_ ? all.sums_s.detach().narrow(0, rows, kl_pairs) : payload.kl_pair_logps;
  auto kl = config_.estimates_kl ? kl_estimate(kl_pair_logps, payload.reference_logps.narrow(0, rows, kl_pairs))
                                 : at::zeros({}, policy.sums_s.options().requires_grad(false));
  KtoLogRatios found{policy.sums_s - payload.reference_logps.narrow(0, 0, rows), payload.desirable};
  LossSum result{kto_losses(found, kl, config_).sum(), {}, {}};

  const double good = static_cast<double>(payload.num_desirable), bad = static_cast<double>(rows) - good;
  auto weight = found.desirable.to(at::kFloat);
  if (config_.rpo_alpha > 0 && good > 0) {  // LLaMA-Factory weights desirable completions again by their share of the rows
    auto mean = -(policy.sums_s / token_counts(own, sequence_).narrow(0, 0, rows).clamp_min(1) * weight).sum() / good;
    result.sum = result.sum + mean * (config_.rpo_alpha * static_cast<double>(rows) / good * static_cast<double>(rows));
  }
  add_router_losses(result, outputs, router_, static_cast<double>(rows), {sequence_, rows});
  auto report = [&](const char* name, const Tensor& values_s) {
    result.metrics.push_back({fmt::format("{}/chosen", name), (values_s.detach() * weight).sum(), good});
    result.metrics.push_back({fmt::format("{}/rejected", name), (values_s.detach() * (1 - weight)).sum(), bad});
  };
  if (!reference_.is_trained_model()) report("rewards", found.ratios * config_.beta);
  report("logps", policy.sums_s);
  report("logits", policy.logits_s);
  result.metrics.push_back({"kl", kl, 1});
  count_once(result, sequence_);
  return result;
}

void KtoLoss::add_derived_metrics(Json& values, const std::string& prefix) const {
  auto chosen = values.find(prefix + "rewards/chosen"), rejected = values.find(prefix + "rewards/rejected");
  if (chosen != values.end() && rejected != values.end())
    values[prefix + "rewards/margins"] = chosen->get<double>() - rejected->get<double>();
}

}  // namespace hone::train

#include "hone/tinker/model/forward_batch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "hone/device/generator.h"
#include "hone/model/pooling.h"
#include "hone/ops/loss/linear_logps.h"
#include "hone/tinker/model/mixed_lora.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

constexpr int64_t kMostTargets = int64_t{1} << 18;  // of a datum: they are computed at once

const LossInput& targets_in(const Datum& datum) { return datum.inputs.at("target_tokens"); }

void check_tokens(const std::vector<int64_t>& tokens, int64_t vocabulary, const char* what) {
  for (auto token : tokens)
    if (token < 0 || token >= vocabulary)
      throw RequestError(fmt::format("{} contains token {}; the vocabulary has 0 to {}", what, token, vocabulary - 1));
}

std::vector<int64_t> target_tokens(const Datum& datum) {
  const auto& values = targets_in(datum).values;
  std::vector<int64_t> targets;
  for (double value : values) targets.push_back(static_cast<int64_t>(value));
  return targets;
}

void check_text(const Datum& datum, int64_t max_length, int64_t vocabulary) {
  const auto length = static_cast<int64_t>(datum.tokens.size());
  if (length == 0) throw RequestError("a datum's model_input holds no token");
  if (length > max_length) throw RequestError(fmt::format("a datum has {} tokens; the context holds {}", length, max_length));
  check_tokens(datum.tokens, vocabulary, "model_input");
}

void check_targets(const Datum& datum, const TokenLoss& loss, int64_t vocabulary, bool is_repeated) {
  loss.check(datum);
  if (const auto count = static_cast<int64_t>(targets_in(datum).values.size()); count > kMostTargets && !is_repeated)
    throw RequestError(
        fmt::format("a datum has {} targets; this server computes {}: give each position fewer", count, kMostTargets));
  for (double value : targets_in(datum).values)
    if (!(std::abs(value) < 1e15) || (!is_repeated && std::floor(value) != value))
      throw RequestError(fmt::format("target_tokens contains {}; expected token ids", value));
  check_tokens(target_tokens(datum), vocabulary, "target_tokens");
}

// The cost of a datum. The targets of a position share its logits, so that only very many of them count.
int64_t size_of(const Datum& datum) {
  constexpr int64_t kTargetsOfAToken = 64;
  const auto targets = datum.inputs.find("target_tokens");
  const auto width = targets == datum.inputs.end() ? 0 : targets->second.width;
  return static_cast<int64_t>(datum.tokens.size()) * (1 + width / kTargetsOfAToken);
}

// Twinkle's setting of a forward pass: the log-probabilities of the base model.
bool takes_base(ForwardBackwardRequest& request) {
  const auto found = request.config.extract("disable_lora");
  if (found.empty() || found.mapped() == 0) return false;
  if (!request.forward_only)
    throw RequestError("loss_fn_config \"disable_lora\" is a setting of forward: without its LoRA a run has no gradient");
  return true;
}

// Rows of a pass with equally many targets: those of the head's product, and what it computes for them.
struct RowsOfWidth {
  std::vector<int64_t> positions, targets;
  std::vector<int64_t> places;  // of the targets, among all of the pass
  ops::LoraMapping rows;        // among `positions`
};

// `place` is that of the datum's first target.
void append_rows(RowsOfWidth& rows, const Datum& datum, int64_t position, int64_t place) {
  for (size_t i = 0; i < datum.tokens.size(); ++i) rows.positions.push_back(position + static_cast<int64_t>(i));
  std::ranges::copy(target_tokens(datum), std::back_inserter(rows.targets));
  for (size_t i = 0; i < targets_in(datum).values.size(); ++i) rows.places.push_back(place + static_cast<int64_t>(i));
}

Tensor indices(const std::vector<int64_t>& values, const Tensor& like) { return at::tensor(values, at::kLong).to(like.device()); }

void append_logprobs(const Tensor& logps, const std::vector<const Datum*>& data, std::vector<DatumLogprobs>& all) {
  auto values = logps.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* next = values.const_data_ptr<float>();
  for (const auto* datum : data) {
    const auto& targets = targets_in(*datum);
    const auto count = targets.values.size();
    all.push_back({{next, next + count}, targets.width, targets.is_matrix});
    next += count;
  }
}

}  // namespace

// A single adapter is fused into the head's own product, which is faster.
Tensor target_logps(model::CausalLM& model, const ops::LoraMapping& rows, const Tensor& hidden_th,
                    const std::vector<int64_t>& targets, double scale) {
  const auto& head = std::as_const(model).head();
  auto adapters = head.adapters;
  for (auto& each : adapters) each.active = has_adapter_of({each}, rows);
  const ops::CrossEntropyOptions options{.target_count = static_cast<int64_t>(targets.size()),
                                         .adapters = std::move(adapters),
                                         .adapter_rows = rows.size() == 1 ? ops::LoraMapping{} : rows,
                                         .scale = scale};
  auto all = indices(targets, hidden_th);
  if (all.size(0) != hidden_th.size(0)) all = all.view({hidden_th.size(0), -1});
  return ops::linear_logps(hidden_th, head.weight, head.bias, all, options).logps_t.view(-1);
}

ForwardTask::ForwardTask(model::CausalLM& model, TrainingRun& run, ForwardBackwardRequest request, int64_t max_length,
                         bool is_repeated)
    : run_(run),
      request_(std::move(request)),
      is_base_(takes_base(request_)),
      pair_loss_(PairLoss::is_requested(request_) ? std::optional<PairLoss>(request_) : std::nullopt),
      contrastive_loss_(ContrastiveLoss::is_requested(request_) ? std::optional<ContrastiveLoss>(request_) : std::nullopt),
      loss_(pair_loss_ || contrastive_loss_ ? TokenLoss("cross_entropy", {}) : TokenLoss(request_.loss_fn, request_.config)) {
  if (request_.data.empty()) throw RequestError("the request holds no data");
  for (const auto& datum : request_.data) {
    check_text(datum, max_length, model.config().vocab_size);
    if (!contrastive_loss_) check_targets(datum, loss_, model.config().vocab_size, is_repeated);
  }
}

void ForwardTask::fail(const std::string& why, bool users_fault) {
  error_ = why;
  is_users_fault_ = users_fault;
}

size_t ForwardTask::next_size() const {
  const auto rest = request_.data.size() - next_;
  return contrastive_loss_ ? rest : std::min<size_t>(pair_loss_ ? 2 : 1, rest);
}

void ForwardBatch::add(ForwardTask& task) {
  int64_t tokens = 0;
  for (const auto& datum : task.request_.data) tokens += static_cast<int64_t>(datum.tokens.size());
  if (task.contrastive_loss_ && tokens > batch_tokens_)
    task.fail(fmt::format("the texts that infonce compares have {} tokens; this server computes at most {} at once", tokens,
                          batch_tokens_),
              true);
  tasks_.push_back(&task);
}

// Data in order, task by task: sums of losses do not depend on the boundaries of passes. Data with and without gradients are not
// mixed, nor are those of a run that trains experts, whose rows lose their order there, or has dropout, or texts that are
// compared, with others.
std::vector<ForwardBatch::Part> ForwardBatch::next_pass() {
  std::vector<Part> pass;
  int64_t size = 0;
  for (auto* task : tasks_) {
    if (task->done()) continue;
    if (!pass.empty() && (pass.front().task->request_.forward_only != task->request_.forward_only ||
                          !pass.front().task->shares_passes() || !task->shares_passes()))
      continue;
    const auto& data = task->request_.data;
    Part part{.task = task, .data = {}};
    while (task->next_ < data.size()) {
      const auto together = std::span(data).subspan(task->next_, task->next_size());
      int64_t more = 0;
      for (const auto& datum : together) more += size_of(datum);
      if (size > 0 && size + more > batch_tokens_) break;
      for (const auto& datum : together) {
        part.data.push_back(&datum);
        part.rows += static_cast<int64_t>(datum.tokens.size());
      }
      size += more;
      task->next_ += together.size();
    }
    if (part.data.empty()) break;
    pass.push_back(std::move(part));
  }
  return pass;
}

// The targets of all parts, concatenated. The head's weight is read once for all rows with equally many targets.
std::vector<Tensor> ForwardBatch::logps_of(const std::vector<Part>& pass, const Tensor& hidden_th) {
  std::map<int64_t, RowsOfWidth> widths;
  std::vector<int64_t> counts;
  int64_t position = 0, place = 0;
  for (const auto& part : pass) {
    const auto begin = place;
    std::map<int64_t, int64_t> first;
    for (const auto* datum : part.data) {
      const auto width = targets_in(*datum).width;
      auto& rows = widths[width];
      first.try_emplace(width, static_cast<int64_t>(rows.positions.size()));
      append_rows(rows, *datum, position, place);
      position += static_cast<int64_t>(datum->tokens.size());
      place += static_cast<int64_t>(targets_in(*datum).values.size());
    }
    for (const auto& [width, from] : first)
      widths[width].rows.push_back({part.task->adapter(), from, static_cast<int64_t>(widths[width].positions.size())});
    counts.push_back(place - begin);
  }
  if (widths.size() == 1) {
    const auto& [width, all] = *widths.begin();
    return target_logps(model_, all.rows, hidden_th, all.targets).split_with_sizes(counts);
  }
  TensorList found;
  std::vector<int64_t> source(static_cast<size_t>(place));
  int64_t next = 0;
  for (const auto& [width, some] : widths) {
    found.push_back(target_logps(model_, some.rows, hidden_th.index_select(0, indices(some.positions, hidden_th)), some.targets));
    for (auto each : some.places) source[static_cast<size_t>(each)] = next++;
  }
  return at::cat(found).index_select(0, indices(source, hidden_th)).split_with_sizes(counts);
}

Tensor ForwardBatch::loss_of(const Part& part, const Tensor& logps) {
  auto& task = *part.task;
  PairMetrics pairs;
  auto sum = task.pair_loss_ ? task.pair_loss_->sum(part.data, logps, pairs)
                             : task.loss_.sum(logps, task.loss_.tensors(part.data, logps.device()));
  if (!is_finite(task, sum)) return {};
  task.loss_sum_ += sum.item<double>();
  task.pair_metrics_.add(pairs);
  if (!task.request_.forward_only) task.run_.note_gradients(pairs);
  append_logprobs(logps, part.data, task.logprobs_);
  return sum;
}

bool ForwardBatch::is_finite(ForwardTask& task, const Tensor& loss) {
  const double value = loss.item<double>();
  if (!std::isfinite(value))
    task.fail(fmt::format("the loss is {}: no gradient was taken", std::isnan(value) ? "NaN" : "infinite"), true);
  return std::isfinite(value);
}

Tensor ForwardBatch::contrastive_loss_of(const Part& part, const Tensor& states_sh) {
  auto& task = *part.task;
  const auto embeddings_sd = model::embeddings(model_, states_sh);
  auto loss = task.contrastive_loss_->mean(embeddings_sd);
  if (!is_finite(task, loss)) return {};
  task.loss_sum_ = loss.item<double>();
  task.similarities_ = task.contrastive_loss_->metrics(embeddings_sd);
  if (!task.request_.forward_only) task.run_.note_gradients({});
  task.logprobs_.resize(part.data.size());  // of no target
  return loss;
}

bool ForwardBatch::step() {
  const auto began = std::chrono::steady_clock::now();
  const auto pass = next_pass();
  in_pass_.clear();
  if (pass.empty()) return false;
  const bool backward = !pass.front().task->request_.forward_only;
  std::vector<std::vector<text::TokenId>> texts;
  ops::LoraMapping rows;
  int64_t size = 0;
  for (const auto& part : pass) {
    in_pass_.push_back(part.task);
    for (const auto* datum : part.data) texts.emplace_back(datum->tokens.begin(), datum->tokens.end());
    rows.push_back({part.task->adapter(), size, size + part.rows});
    size += part.rows;
  }
  tokens_ = size;
  ActiveAdapters active(model_, rows, backward);
  at::AutoGradMode gradients(backward);
  if (const auto& task = *pass.front().task; backward && task.run_.dropout() > 0)  // the same masks if it is computed again
    device::seed(task.run_.seed() ^ (static_cast<uint64_t>(task.request_.seq_id) << 24) ^ task.next_);
  const auto& experts = model_.config().experts;
  TensorList router_logits;
  const auto input = model::packed_texts(texts, model_.device());
  auto hidden_th = model_.hidden_states(input, nullptr, experts.count > 0 ? &router_logits : nullptr);
  Tensor total;
  const bool compares = pass.front().task->contrastive_loss_.has_value();  // which has the pass to itself
  const auto logps = compares ? std::vector<Tensor>() : logps_of(pass, hidden_th);
  for (size_t i = 0; i < pass.size(); ++i) {
    auto sum =
        compares ? contrastive_loss_of(pass[i], model::last_token_states(hidden_th, input.segments)) : loss_of(pass[i], logps[i]);
    if (!sum.defined()) continue;
    pass[i].task->experts_.add(router_logits, experts.num_experts_per_tok, rows[i].begin, pass[i].rows);
    total = total.defined() ? total + sum : sum;
  }
  if (backward && total.defined()) total.backward();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (const auto& part : pass) part.task->seconds_ += seconds * static_cast<double>(part.rows) / static_cast<double>(size);
  return true;
}

}  // namespace hone::tinker

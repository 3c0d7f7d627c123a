#include "hone/tinker/model/forward_batch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

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

void check_datum(const Datum& datum, const TokenLoss& loss, int64_t max_length, int64_t vocabulary, bool is_repeated) {
  const auto length = static_cast<int64_t>(datum.tokens.size());
  if (length == 0) throw RequestError("a datum's model_input holds no token");
  if (length > max_length) throw RequestError(fmt::format("a datum has {} tokens; the context holds {}", length, max_length));
  loss.check(datum);
  if (const auto count = static_cast<int64_t>(targets_in(datum).values.size()); count > kMostTargets && !is_repeated)
    throw RequestError(
        fmt::format("a datum has {} targets; this server computes {}: give each position fewer", count, kMostTargets));
  check_tokens(datum.tokens, vocabulary, "model_input");
  for (double value : targets_in(datum).values)
    if (!(std::abs(value) < 1e15) || (!is_repeated && std::floor(value) != value))
      throw RequestError(fmt::format("target_tokens contains {}; expected token ids", value));
  check_tokens(target_tokens(datum), vocabulary, "target_tokens");
}

// The cost of a datum: a position with several targets counts once per target.
int64_t size_of(const Datum& datum) {
  return static_cast<int64_t>(datum.tokens.size()) * std::max<int64_t>(1, targets_in(datum).width);
}

// The position of the hidden state that predicts each target of a datum, repeated if a position has several targets.
void append_positions(const Datum& datum, int64_t begin, std::vector<int64_t>& positions) {
  for (size_t i = 0; i < datum.tokens.size(); ++i)
    positions.insert(positions.end(), static_cast<size_t>(targets_in(datum).width), begin + static_cast<int64_t>(i));
}

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
  return ops::linear_logps(hidden_th, head.weight, head.bias, at::tensor(targets, at::kLong).to(hidden_th.device()),
                           {.target_count = static_cast<int64_t>(targets.size()),
                            .adapters = std::move(adapters),
                            .adapter_rows = rows.size() == 1 ? ops::LoraMapping{} : rows,
                            .scale = scale})
      .logps_t;
}

ForwardTask::ForwardTask(model::CausalLM& model, TrainingRun& run, ForwardBackwardRequest request, int64_t max_length,
                         bool is_repeated)
    : run_(run), request_(std::move(request)), loss_(request_.loss_fn, request_.config) {
  if (request_.data.empty()) throw RequestError("the request holds no data");
  for (const auto& datum : request_.data) check_datum(datum, loss_, max_length, model.config().vocab_size, is_repeated);
}

void ForwardTask::fail(const std::string& why, bool users_fault) {
  error_ = why;
  is_users_fault_ = users_fault;
}

// Data in order, task by task: sums of losses do not depend on the boundaries of passes. Data with and without gradients are not
// mixed, nor are those of a run that trains experts, whose rows lose their order there, with others.
std::vector<ForwardBatch::Part> ForwardBatch::next_pass() {
  std::vector<Part> pass;
  int64_t size = 0;
  for (auto* task : tasks_) {
    if (task->done()) continue;
    if (!pass.empty() && (pass.front().task->request_.forward_only != task->request_.forward_only ||
                          pass.front().task->run_.trains_experts() || task->run_.trains_experts()))
      continue;
    const auto& data = task->request_.data;
    Part part{.task = task, .data = {}};
    for (; task->next_ < data.size() && (size == 0 || size + size_of(data[task->next_]) <= batch_tokens_); ++task->next_) {
      part.data.push_back(&data[task->next_]);
      part.rows += static_cast<int64_t>(data[task->next_].tokens.size());
      size += size_of(data[task->next_]);
    }
    if (part.data.empty()) break;
    pass.push_back(std::move(part));
  }
  return pass;
}

// The targets of all parts, concatenated. The head's weight is read once for all of them.
std::vector<Tensor> ForwardBatch::logps_of(const std::vector<Part>& pass, const Tensor& hidden_th) {
  std::vector<int64_t> targets, positions, counts;
  ops::LoraMapping rows;
  int64_t position = 0;
  for (const auto& part : pass) {
    const auto begin = static_cast<int64_t>(targets.size());
    for (const auto* datum : part.data) {
      std::ranges::copy(target_tokens(*datum), std::back_inserter(targets));
      append_positions(*datum, position, positions);
      position += static_cast<int64_t>(datum->tokens.size());
    }
    rows.push_back({part.task->run_.name(), begin, static_cast<int64_t>(targets.size())});
    counts.push_back(static_cast<int64_t>(targets.size()) - begin);
  }
  const bool one_each = static_cast<int64_t>(positions.size()) == hidden_th.size(0);
  auto behind_th = one_each ? hidden_th : hidden_th.index_select(0, at::tensor(positions, at::kLong).to(hidden_th.device()));
  return target_logps(model_, rows, behind_th, targets).split_with_sizes(counts);
}

Tensor ForwardBatch::loss_of(const Part& part, const Tensor& logps) {
  auto& task = *part.task;
  auto sum = task.loss_.sum(logps, task.loss_.tensors(part.data, logps.device()));
  const double value = sum.item<double>();
  if (!std::isfinite(value)) {
    task.fail(fmt::format("the loss is {}: no gradient was taken", std::isnan(value) ? "NaN" : "infinite"), true);
    return {};
  }
  task.loss_sum_ += value;
  append_logprobs(logps, part.data, task.logprobs_);
  return sum;
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
    rows.push_back({part.task->run_.name(), size, size + part.rows});
    size += part.rows;
  }
  tokens_ = size;
  ActiveAdapters active(model_, rows, backward);
  at::AutoGradMode gradients(backward);
  const auto& experts = model_.config().experts;
  TensorList router_logits;
  auto hidden_th =
      model_.hidden_states(model::packed_texts(texts, model_.device()), nullptr, experts.count > 0 ? &router_logits : nullptr);
  Tensor total;
  const auto logps = logps_of(pass, hidden_th);
  for (size_t i = 0; i < pass.size(); ++i) {
    auto sum = loss_of(pass[i], logps[i]);
    if (!sum.defined()) continue;
    pass[i].task->experts_.add(router_logits, experts.num_experts_per_tok, rows[i].begin, pass[i].rows);
    total = total.defined() ? total + sum : sum;
    if (backward) pass[i].task->run_.note_gradients();
  }
  if (backward && total.defined()) total.backward();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (const auto& part : pass) part.task->seconds_ += seconds * static_cast<double>(part.rows) / static_cast<double>(size);
  return true;
}

}  // namespace hone::tinker

#include "hone/engine/generator.h"

#include <algorithm>

#include "hone/model/kv_cache.h"

namespace hone::engine {
namespace {

using text::TokenId;

// One request in flight: what it has said and what it waits to feed into the model.
class Sequence {
 public:
  Sequence(const Request& request, size_t index, const text::Tokenizer& tokenizer)
      : request_(request), index_(index), sampler_(request.sampling, index), decoder_(tokenizer, true), context_(request.prompt),
        unread_(request.prompt.size()) {}

  bool done() const { return done_; }
  const Completion& completion() const { return completion_; }
  std::span<const TokenId> unread() const { return std::span(context_).last(done_ ? 0 : unread_); }
  int64_t position() const { return static_cast<int64_t>(context_.size() - unread_); }

  // `logits` of the last unread token: choose the next one, emit what has become text, notice the end.
  void advance(std::span<float> logits, const OnText& on_text) {
    TokenId token = sampler_.next(logits, context_);
    if (std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) != request_.stop_tokens.end()) {
      finish(FinishReason::stop, on_text);
      return;
    }
    context_.push_back(token);
    unread_ = 1;
    completion_.tokens.push_back(token);
    emit(decoder_.push(token), on_text);
    if (!done_ && ends_with_stop_word()) finish(FinishReason::stop, on_text);
    if (!done_ && static_cast<int64_t>(completion_.tokens.size()) >= request_.max_new_tokens) finish(FinishReason::length, on_text);
  }

 private:
  void emit(const std::string& piece, const OnText& on_text) {
    if (piece.empty()) return;
    completion_.text += piece;
    if (on_text && !on_text(index_, piece)) done_ = true;
  }
  void finish(FinishReason reason, const OnText& on_text) {
    completion_.reason = reason;
    emit(decoder_.finish(), on_text);
    done_ = true;
  }
  bool ends_with_stop_word() const {
    auto ends = [&](const std::string& word) { return !word.empty() && completion_.text.ends_with(word); };
    return std::any_of(request_.stop_words.begin(), request_.stop_words.end(), ends);
  }

  const Request& request_;
  size_t index_;
  Sampler sampler_;
  text::StreamDecoder decoder_;
  std::vector<TokenId> context_;
  size_t unread_;
  Completion completion_;
  bool done_ = false;
};

// Everything the sequences have not read yet, as one packed row; a finished sequence is an empty segment.
model::Input gather(const std::vector<Sequence>& sequences, at::Device device) {
  std::vector<int64_t> tokens, positions;
  model::Input input;
  for (const auto& sequence : sequences) {
    auto unread = sequence.unread();
    for (size_t i = 0; i < unread.size(); ++i) {
      tokens.push_back(unread[i]);
      positions.push_back(sequence.position() + static_cast<int64_t>(i));
    }
    input.segments.append(static_cast<int64_t>(unread.size()));
  }
  input.tokens_t = at::tensor(tokens, at::kLong).to(device);
  input.positions_t = at::tensor(positions, at::kLong).to(device);
  return input;
}

// Rows of `hidden` that end a segment: the only ones whose logits are wanted.
Tensor last_rows(const Tensor& hidden_th, const ops::Segments& segments) {
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < segments.count(); ++i)
    if (segments.length(i) > 0) ends.push_back(segments.offsets[static_cast<size_t>(i) + 1] - 1);
  return hidden_th.index_select(0, at::tensor(ends, at::kLong).to(hidden_th.device()));
}

}  // namespace

Generator::Generator(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer)
    : model_(model), tokenizer_(std::move(tokenizer)) {}

std::vector<Completion> Generator::run(const std::vector<Request>& requests, size_t batch_size, const OnText& on_text) {
  for (const auto& request : requests)
    if (request.prompt.empty()) throw UserError(ExitCode::bad_data, "a prompt holds no token");
  std::vector<Completion> completions;
  for (size_t first = 0; first < requests.size(); first += batch_size) {
    auto batch = std::span(requests).subspan(first, std::min(batch_size, requests.size() - first));
    auto part = run_batch(batch, first, on_text);
    completions.insert(completions.end(), part.begin(), part.end());
  }
  return completions;
}

std::vector<Completion> Generator::run_batch(std::span<const Request> requests, size_t first_index, const OnText& on_text) {
  at::InferenceMode inference;
  std::vector<Sequence> sequences;
  int64_t capacity = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    sequences.emplace_back(requests[i], first_index + i, *tokenizer_);
    capacity = std::max(capacity, static_cast<int64_t>(requests[i].prompt.size()) + requests[i].max_new_tokens);
  }
  model::KvCache cache(model_.config(), static_cast<int64_t>(requests.size()), capacity, model_.dtype(), model_.device());
  auto running = [](const Sequence& sequence) { return !sequence.done(); };
  while (std::any_of(sequences.begin(), sequences.end(), running)) {
    auto input = gather(sequences, model_.device());
    auto logits_bv = model_.logits(last_rows(model_.hidden(input, &cache), input.segments)).to(at::kFloat).to(at::kCPU).contiguous();
    auto vocabulary = static_cast<size_t>(logits_bv.size(1));
    float* row = logits_bv.data_ptr<float>();
    for (auto& sequence : sequences) {
      if (sequence.done()) continue;
      sequence.advance({row, vocabulary}, on_text);
      row += vocabulary;
    }
  }
  std::vector<Completion> completions;
  for (const auto& sequence : sequences) completions.push_back(sequence.completion());
  return completions;
}

}  // namespace hone::engine

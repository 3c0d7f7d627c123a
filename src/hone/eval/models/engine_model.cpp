#include <algorithm>
#include <span>

#include "hone/base/log.h"
#include "hone/device/tensor.h"
#include "hone/eval/models/model.h"
#include "hone/eval/models/shared_requests.h"
#include "hone/text/jinja/unicode.h"

namespace hone::eval {
namespace {

using text::TokenId;

constexpr size_t kWindow = 4096;  // concurrent requests in the engine

// A prompt, encoded once for all of its continuations.
struct Context {
  bool is_chat = false;
  std::string text;  // without a chat
  Tokens tokens;     // empty if the text is white space
};

class EngineModel final : public Model {
 public:
  EngineModel(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
              std::shared_ptr<const data::Encoder> encoder, EngineModelConfig config)
      : engine_(engine), tokenizer_(std::move(tokenizer)), encoder_(std::move(encoder)), config_(std::move(config)) {}

  std::vector<Likelihood> likelihoods(const std::vector<LikelihoodRequest>& requests, const OnAnswered& answered) override {
    std::vector<Likelihood> results;
    for (size_t first = 0; first < requests.size(); first += kWindow) {
      const auto window = std::span(requests).subspan(first, std::min(kWindow, requests.size() - first));
      auto scored = score(encode_pairs(window), [&](const std::vector<size_t>& pairs) { answered(pairs.size()); });
      results.insert(results.end(), scored.begin(), scored.end());
    }
    return results;
  }

  std::vector<double> rolling_likelihoods(const std::vector<std::string>& texts, const OnAnswered& answered) override {
    std::vector<TokenPair> pairs;
    std::vector<size_t> owners;
    for (size_t i = 0; i < texts.size(); ++i)
      for (auto& window : rolling_windows(texts[i])) pairs.push_back(std::move(window)), owners.push_back(i);
    std::vector<size_t> windows_left(texts.size(), 0);
    for (auto owner : owners) ++windows_left[owner];
    auto scores = score(pairs, [&](const std::vector<size_t>& done) {
      for (auto pair : done)
        if (--windows_left[owners[pair]] == 0) answered(1);
    });
    std::vector<double> sums(texts.size(), 0);
    for (size_t i = 0; i < scores.size(); ++i) sums[owners[i]] += scores[i].logprob;
    return sums;
  }

  std::vector<std::string> generate(const std::vector<GenerationRequest>& requests, const OnAnswered& answered) override {
    std::vector<std::string> answers;
    for (size_t first = 0; first < requests.size(); first += kWindow) {
      std::vector<engine::Request> batch(std::min(kWindow, requests.size() - first));
      at::parallel_for(0, static_cast<int64_t>(batch.size()), 16, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          batch[i] = generation_request(requests[first + i]);
      });
      std::vector<size_t> sizes;
      for (const auto& request : batch) sizes.push_back(request.prompt.size());
      auto completions = generate_grouped(engine_, std::move(batch), sizes, [&](size_t) { answered(1); });
      for (auto& completion : completions) {
        if (completion.finish == engine::FinishReason::error) throw UserError(ExitCode::failure, completion.error);
        answers.push_back(std::move(completion.text));
      }
    }
    return answers;
  }

 private:
  // lm-evaluation-harness's rule: special tokens as the tokenizer adds them, unless the text already starts with the first one.
  Tokens encode(std::string_view text) const {
    auto first = first_token();
    bool brought = first && text.starts_with(tokenizer_->token_of(*first)) && !tokenizer_->token_of(*first).empty();
    return tokenizer_->encode(text, {.add_special_tokens = !brought});
  }

  std::optional<TokenId> first_token() const {
    return tokenizer_->special().bos ? tokenizer_->special().bos : tokenizer_->special().eos;
  }

  Tokens chat_tokens(const Prompt& prompt) const {
    data::Conversation conversation;
    for (const auto& message : config_.fewshot_as_multiturn ? prompt : as_single_turn(prompt))
      conversation.messages.push_back(
          {.role = message.role, .content = message.content, .loss = {}, .loss_scale = {}, .extra = {}});
    return encoder_->encode_prompt(conversation).or_throw(ExitCode::bad_data, "prompt");
  }

  // Questions are encoded in parallel; the choices of one follow each other and have the same prompt.
  std::vector<TokenPair> encode_pairs(std::span<const LikelihoodRequest> requests) const {
    std::vector<size_t> begins;  // of requests with the same prompt
    for (size_t i = 0; i < requests.size(); ++i)
      if (i == 0 || requests[i].prompt != requests[i - 1].prompt) begins.push_back(i);
    begins.push_back(requests.size());
    std::vector<TokenPair> pairs(requests.size());
    at::parallel_for(0, static_cast<int64_t>(begins.size()) - 1, 4, [&](int64_t begin, int64_t end) {
      for (auto at = static_cast<size_t>(begin); at < static_cast<size_t>(end); ++at) {
        const auto context = encode_context(requests[begins[at]].prompt);
        for (size_t i = begins[at]; i < begins[at + 1]; ++i) pairs[i] = encode_pair(context, requests[i].continuation);
      }
    });
    return pairs;
  }

  Context encode_context(const Prompt& prompt) const {
    if (config_.apply_chat_template && !prompt.empty()) return {true, {}, chat_tokens(prompt)};
    Context context{false, plain_text(prompt), {}};
    // White space between the two belongs to the continuation: words start with it.
    const auto kept = text::jinja::strip_space(context.text, text::jinja::Side::right);
    if (!kept.empty()) context.tokens = encode(kept);
    if (!context.text.empty()) return context;
    const auto first = first_token();
    if (!first)
      throw UserError(ExitCode::bad_data, "the tokenizer has neither a first nor a last token to begin an empty prompt with");
    context.tokens = {*first};
    return context;
  }

  TokenPair encode_pair(const Context& context, const std::string& continuation) const {
    TokenPair pair{context.tokens, {}};
    if (context.is_chat) {
      pair.continuation = tokenizer_->encode(continuation);
    } else if (context.text.empty()) {
      pair.continuation = tokenizer_->encode(continuation);
      if (!pair.continuation.empty() && pair.continuation[0] == pair.context[0])
        pair.continuation.erase(pair.continuation.begin());
    } else {
      const auto whole = encode(context.text + continuation);
      if (pair.context.empty()) pair.context = {whole.empty() ? 0 : whole[0]};
      if (whole.size() > pair.context.size())
        pair.continuation.assign(whole.begin() + static_cast<long>(pair.context.size()), whole.end());
    }
    if (pair.continuation.empty())
      throw UserError(ExitCode::bad_data, fmt::format("the continuation \"{}\" adds no token to its prompt", continuation),
                      "see target_delimiter and doc_to_choice of the task");
    truncate(pair);
    return pair;
  }

  // Truncates the context from the left to fit; the last token is not computed.
  void truncate(TokenPair& pair) const {
    auto room = static_cast<size_t>(engine_.max_model_len() - 1);
    auto total = pair.context.size() + pair.continuation.size() - 1;
    if (total <= room) return;
    auto over = total - room;
    if (over >= pair.context.size())
      throw UserError(ExitCode::bad_data, fmt::format("a continuation has {} tokens; the model's context holds {}",
                                                      pair.continuation.size(), engine_.max_model_len()));
    log::warn_once("prompts that are longer than the model's context are truncated on the left");
    pair.context.erase(pair.context.begin(), pair.context.begin() + static_cast<long>(over));
  }

  using OnScored = std::function<void(const std::vector<size_t>& pairs)>;
  std::vector<Likelihood> score(const std::vector<TokenPair>& pairs, const OnScored& on_scored) const {
    auto shared = share_requests(pairs);
    std::vector<engine::Request> requests;
    std::vector<size_t> sizes;
    for (const auto& one : shared) {
      requests.push_back(engine_request(one));
      sizes.push_back(std::min(one.start, one.prompt.size()));
    }
    auto done = generate_grouped(engine_, std::move(requests), sizes, [&](size_t i) { on_scored(shared[i].pairs); });
    std::vector<Likelihood> results(pairs.size());
    for (size_t i = 0; i < shared.size(); ++i) {
      if (done[i].finish == engine::FinishReason::error) throw UserError(ExitCode::failure, done[i].error);
      Likelihood before{0, true};
      for (const auto& position : done[i].prompt_logprobs)
        before.logprob += static_cast<double>(position.chosen.logprob), before.is_greedy &= position.token_rank == 1;
      const auto& last = done[i].logprobs.at(0);
      for (size_t j = 0; j < shared[i].pairs.size(); ++j)
        results[shared[i].pairs[j]] = {before.logprob + static_cast<double>(last.others[j].logprob),
                                       before.is_greedy && last.chosen.token == shared[i].last[j]};
    }
    return results;
  }

  // Windows of the context: each predicts as many new tokens as fit, the last one with as much context as fits.
  std::vector<TokenPair> rolling_windows(const std::string& text) const {
    auto first = first_token();
    auto tokens = tokenizer_->encode(text, {.add_special_tokens = true});
    if (!first || tokens.empty()) throw UserError(ExitCode::bad_data, "a text without tokens has no likelihood");
    auto room = static_cast<size_t>(engine_.max_model_len() - 1);
    std::vector<TokenPair> windows;
    for (size_t done = 0; done < tokens.size();) {
      auto count = std::min(room, tokens.size() - done);
      TokenPair window;
      window.continuation.assign(tokens.begin() + static_cast<long>(done), tokens.begin() + static_cast<long>(done + count));
      if (done == 0) {
        window.context = {*first};
      } else {
        auto before = std::min(done, room - count + 1);
        window.context.assign(tokens.begin() + static_cast<long>(done - before), tokens.begin() + static_cast<long>(done));
      }
      windows.push_back(std::move(window));
      done += count;
    }
    return windows;
  }

  engine::Request generation_request(const GenerationRequest& asked) const {
    engine::Request request{.prompt = config_.apply_chat_template ? chat_tokens(asked.prompt) : encode(plain_text(asked.prompt)),
                            .sampling = {}};
    auto room = engine_.max_model_len() - asked.kwargs.max_gen_toks;
    if (room <= 0)
      throw UserError(ExitCode::bad_data,
                      fmt::format("max_gen_toks is {}; the model's context holds {} tokens in all", asked.kwargs.max_gen_toks,
                                  engine_.max_model_len()),
                      "lower it with `eval_generation_config` '{\"max_tokens\": 256}'");
    if (auto size = static_cast<int64_t>(request.prompt.size()); size > room) {
      log::warn_once("prompts that leave no room for a completion are truncated on the left");
      request.prompt.erase(request.prompt.begin(), request.prompt.begin() + (size - room));
    }
    auto& sampling = request.sampling;
    sampling.temperature = asked.kwargs.temperature;
    sampling.top_p = asked.kwargs.top_p;
    sampling.top_k = asked.kwargs.top_k;
    sampling.min_p = asked.kwargs.min_p;
    sampling.repetition_penalty = asked.kwargs.repetition_penalty;
    sampling.max_tokens = asked.kwargs.max_gen_toks;
    sampling.stop = asked.kwargs.until;
    sampling.eos_token_ids = config_.eos_token_ids;
    sampling.seed = asked.seed;
    return request;
  }

  engine::Engine& engine_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const data::Encoder> encoder_;
  EngineModelConfig config_;
};

}  // namespace

std::unique_ptr<Model> make_engine_model(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
                                         std::shared_ptr<const data::Encoder> encoder, EngineModelConfig config) {
  return std::make_unique<EngineModel>(engine, std::move(tokenizer), std::move(encoder), std::move(config));
}

}  // namespace hone::eval

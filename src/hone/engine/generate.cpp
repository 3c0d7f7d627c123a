#include <iterator>
#include <unordered_map>

#include "hone/base/rng.h"
#include "hone/engine/engine.h"

namespace hone::engine {

uint64_t seed_of(uint64_t seed, uint64_t index) { return index == 0 ? seed : Rng(seed, index).next(); }

std::vector<Completion> generate(Engine& engine, std::vector<Request> requests, const OnText& on_text, const OnDone& on_done) {
  std::vector<Completion> completions(requests.size());
  std::unordered_map<RequestId, size_t> indices;
  for (size_t i = 0; i < requests.size(); ++i) indices[engine.add(std::move(requests[i]))] = i;
  auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  while (!indices.empty()) {
    for (auto& output : engine.step()) {
      auto found = indices.find(output.id);
      if (found == indices.end()) continue;
      auto& completion = completions[found->second];
      if (on_text && !output.text.empty()) on_text(found->second, output.text);
      append(completion.tokens, output.tokens);
      append(completion.logprobs, output.logprobs);
      append(completion.prompt_logprobs, output.prompt_logprobs);
      completion.text += output.text;
      if (output.finish == FinishReason::none) continue;
      if (output.model_broken)
        throw UserError(ExitCode::non_finite, output.error, "take an earlier checkpoint, or the model without the adapter");
      completion.finish = output.finish;
      completion.stop_string = output.stop_string;
      completion.error = output.error;
      if (on_done) on_done(found->second);
      indices.erase(found);
    }
  }
  return completions;
}

}  // namespace hone::engine

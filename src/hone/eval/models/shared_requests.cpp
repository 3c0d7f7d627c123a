#include "hone/eval/models/shared_requests.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

namespace hone::eval {
namespace {

constexpr size_t kSmallestBlock = 4;  // tokens in a block of the cache, as evaluation on the CPU has it

// The order of requests by their contexts, the first `context_sizes[i]` tokens of each prompt. One replica computes a group of
// neighbours that share a quarter of their contexts, so that shared tokens are computed once. Groups are small, so that replicas
// get equal work.
std::vector<size_t> group_by_prefix(std::vector<engine::Request>& requests, const std::vector<size_t>& context_sizes) {
  const auto context = [&](size_t i) { return std::span(std::as_const(requests[i].prompt)).first(context_sizes[i]); };
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return std::ranges::lexicographical_compare(context(a), context(b)); });
  const size_t largest = requests.size() / 64 + 1;
  uint64_t group = 1;
  for (size_t i = 0, members = 0; i < order.size(); ++i, ++members) {
    const auto own = context(order[i]), before = context(order[i > 0 ? i - 1 : 0]);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(own, before).in1 - own.begin());
    const bool is_same = shared == own.size() && shared == before.size();
    if (!is_same && (members >= largest || shared * 4 < own.size())) ++group, members = 0;
    requests[order[i]].group = own.size() < kSmallestBlock ? 0 : group;  // no block of the cache would be shared
  }
  return order;
}

}  // namespace

std::vector<SharedRequest> share_requests(const std::vector<TokenPair>& pairs) {
  std::vector<SharedRequest> requests;
  std::map<std::pair<size_t, Tokens>, size_t> known;
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto prompt = pairs[i].context;
    prompt.insert(prompt.end(), pairs[i].continuation.begin(), pairs[i].continuation.end() - 1);
    auto [place, fresh] = known.try_emplace({pairs[i].context.size(), prompt}, requests.size());
    if (fresh) requests.push_back({std::move(prompt), pairs[i].context.size(), {}, {}});
    requests[place->second].pairs.push_back(i);
    requests[place->second].last.push_back(pairs[i].continuation.back());
  }
  return requests;
}

engine::Request engine_request(const SharedRequest& shared) {
  engine::Request request{.prompt = shared.prompt, .sampling = {}, .detokenize = false};
  auto& sampling = request.sampling;
  sampling.max_tokens = 1;
  sampling.ignore_eos = true;  // end tokens are ordinary tokens here
  sampling.logprobs = 0;
  sampling.logprob_token_ids = shared.last;
  if (shared.start < shared.prompt.size()) {
    sampling.prompt_logprobs = 0;
    sampling.prompt_logprobs_start = static_cast<int64_t>(shared.start);
  }
  return request;
}

std::vector<engine::Completion> generate_grouped(engine::Engine& engine, std::vector<engine::Request> requests,
                                                 const std::vector<size_t>& context_sizes, const engine::OnDone& on_done) {
  const auto order = group_by_prefix(requests, context_sizes);
  std::vector<engine::Request> ordered;
  for (auto i : order) ordered.push_back(std::move(requests[i]));
  auto done = engine::generate(engine, std::move(ordered), {}, [&](size_t i) { on_done(order[i]); });
  std::vector<engine::Completion> completions(done.size());
  for (size_t i = 0; i < order.size(); ++i) completions[order[i]] = std::move(done[i]);
  return completions;
}

}  // namespace hone::eval

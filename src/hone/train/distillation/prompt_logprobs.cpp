#include "hone/train/distillation/prompt_logprobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hone/base/log.h"
#include "hone/hub/post_json.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train {

PromptLogprobsClient::PromptLogprobsClient(const std::string& address, double timeout, int64_t vocabulary)
    : address_(address), timeout_(timeout), vocabulary_(vocabulary) {
  while (address_.ends_with('/')) address_.pop_back();
  if (!address_.ends_with("/v1")) address_ += "/v1";
  address_ += "/completions";
  const auto read = hub::read_address(address_);
  shown_ = read ? read->shown : address_;
}

std::vector<Json> PromptLogprobsClient::ask_entries(const std::vector<std::vector<int64_t>>& sequences, int64_t topk,
                                                    const std::string& hint) const {
  const auto reply = post({{"prompt", sequences}, {"max_tokens", 1}, {"temperature", 0}, {"prompt_logprobs", topk}}, hint);
  const auto choices = reply.value("choices", Json());
  if (!choices.is_array() || choices.size() != sequences.size()) throw misunderstood("no choice for each of the sequences");
  std::vector<Json> entries;
  for (size_t i = 0; i < sequences.size(); ++i) {
    entries.push_back(choices[i].is_object() ? choices[i].value("prompt_logprobs", Json()) : Json());
    if (!entries[i].is_array() || entries[i].size() != sequences[i].size())
      throw misunderstood("no prompt_logprobs for each of the tokens");
  }
  return entries;
}

std::vector<std::vector<PromptLogprobsClient::Position>> PromptLogprobsClient::ask(
    const std::vector<std::vector<int64_t>>& sequences, int64_t topk) const {
  const auto entries =
      ask_entries(sequences, topk,
                  "make sure that it runs and serves prompt_logprobs; `teacher_timeout` sets how long it may take. "
                  "Resume the run from its last checkpoint with `resume_from_checkpoint`");
  std::vector<std::vector<Position>> logprobs;
  for (const auto& list : entries) {
    auto& positions = logprobs.emplace_back(list.size());
    for (size_t t = 1; t < list.size(); ++t) positions[t] = read_position(list[t], topk);
  }
  return logprobs;
}

void PromptLogprobsClient::probe(const text::Tokenizer& student, int64_t topk) const {
  constexpr auto kConnectTimeout = std::chrono::seconds(2);
  try {
    hub::require_listener(address_, kConnectTimeout);
  } catch (const std::runtime_error& problem) {
    log::warning("the teacher at {} cannot be reached yet, and the run waits up to {:.0f} seconds: {}", shown_, timeout_,
                 problem.what());
  }
  const auto tokens = student.encode("The quick brown fox jumps over 13 lazy dogs.");
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const auto entries = ask_entries({ids}, topk,
                                   "start its server first, or check `teacher_model_server`: it must serve prompt_logprobs, as "
                                   "many as `gkd_logits_topk`; `teacher_timeout` sets how long it may take");
  for (size_t t = 1; t < ids.size(); ++t) {
    read_position(entries[0][t], topk);
    require_same_token(ids[t], entries[0][t], student);
  }
}

// Servers may leave a token's text out; spaces around it are written differently by tokenizers.
void PromptLogprobsClient::require_same_token(int64_t id, const Json& entry, const text::Tokenizer& student) const {
  const auto found = entry.value(std::to_string(id), Json());
  if (!found.is_object() || !found.contains("decoded_token") || !found["decoded_token"].is_string()) return;
  const auto bare = [](std::string text) {
    constexpr std::string_view kSpaces[] = {" ", "\u2581", "\u0120"};
    for (const auto space : kSpaces)
      for (size_t at = text.find(space); at != std::string::npos; at = text.find(space)) text.erase(at, space.size());
    return text;
  };
  const auto token = static_cast<text::TokenId>(id);
  const auto ours = student.decode({&token, 1}), theirs = found["decoded_token"].get<std::string>();
  if (bare(theirs).empty() || bare(ours) == bare(theirs)) return;
  throw UserError(
      ExitCode::usage,
      fmt::format("the teacher at {} has another vocabulary than the student: token {} is \"{}\" there and \"{}\" here", shown_,
                  id, theirs, ours),
      "distributions are compared token by token: serve a teacher of the student's family");
}

PromptLogprobsClient::Position PromptLogprobsClient::read_position(const Json& entry, int64_t topk) const {
  Position tokens;
  if (entry.is_object())
    for (const auto& [id, about] : entry.items()) {
      const auto token = read_id(id);
      if (!about.is_object() || !about.contains("logprob") || !about["logprob"].is_number())
        throw misunderstood("an entry of prompt_logprobs without logprob");
      if (const auto logp = about["logprob"].get<float>(); std::isfinite(logp)) tokens.push_back({token, logp});
    }
  if (static_cast<int64_t>(tokens.size()) < topk)
    throw misunderstood(fmt::format("{} of the {} most likely tokens", tokens.size(), topk));
  std::ranges::sort(
      tokens, [](const TokenLogp& a, const TokenLogp& b) { return a.logp != b.logp ? a.logp > b.logp : a.token < b.token; });
  return tokens;
}

int64_t PromptLogprobsClient::read_id(const std::string& text) const {
  int64_t id = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (problem != std::errc() || end != text.data() + text.size()) id = -1;
  if (id < 0) throw misunderstood(fmt::format("the token id \"{}\"", text.substr(0, 40)));
  if (id >= vocabulary_)
    throw UserError(ExitCode::usage,
                    fmt::format("the teacher at {} returned token {}; the student's vocabulary has {}", shown_, id, vocabulary_),
                    "distributions are compared token by token: serve a teacher of the student's family");
  return id;
}

Json PromptLogprobsClient::post(const Json& question, const std::string& hint) const {
  hub::PostOptions posting{.timeout = std::chrono::seconds(static_cast<int64_t>(std::ceil(timeout_))),
                           .is_cancelled = [] { return StopSignal::requested() == Stop::interrupt; }};
  try {
    auto reply = parse_json(hub::post_json(address_, question.dump(), posting));
    if (!reply || !reply->is_object()) throw misunderstood("no JSON object");
    return *reply;
  } catch (const std::runtime_error& problem) {
    if (dynamic_cast<const UserError*>(&problem)) throw;
    throw UserError(ExitCode::failure, fmt::format("the teacher at {} gave no log-probabilities: {}", shown_, problem.what()),
                    hint);
  }
}

UserError PromptLogprobsClient::misunderstood(const std::string& found) const {
  return UserError(ExitCode::failure, fmt::format("the teacher at {} returned {}", shown_, found),
                   "expected choices with prompt_logprobs by token id, as vLLM and `hone deploy` give them");
}

std::vector<size_t> route_by_tag(const std::vector<TeacherServer>& servers, const std::vector<std::string>& tags) {
  std::vector<size_t> route;
  for (const auto& tag : tags) {
    const auto found = std::ranges::find_if(
        servers, [&](const TeacherServer& server) { return servers.size() == 1 || std::ranges::count(server.tags, tag) > 0; });
    if (found == servers.end())
      throw UserError(ExitCode::bad_data, fmt::format("a row has the tag \"{}\", and no teacher has it", tag),
                      "add it to the tags of one");
    route.push_back(static_cast<size_t>(found - servers.begin()));
  }
  return route;
}

std::string teacher_tag(const data::Conversation& row, const std::string& key) {
  if (!row.extra.is_object() || !row.extra.contains(key)) return row.origin.dataset;
  const auto& tag = row.extra[key];
  return tag.is_string() ? tag.get<std::string>() : tag.dump();
}

}  // namespace hone::train

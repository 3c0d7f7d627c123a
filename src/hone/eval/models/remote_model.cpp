#include <mutex>

#include "hone/eval/models/model.h"

namespace hone::eval {
namespace {

class RemoteModel final : public Model {
 public:
  RemoteModel(ChatServer server, bool fewshot_as_multiturn) : server_(std::move(server)), multiturn_(fewshot_as_multiturn) {}

  std::vector<Likelihood> likelihoods(const std::vector<LikelihoodRequest>& requests, const OnAnswered&) override {
    if (!requests.empty()) throw no_likelihoods();
    return {};
  }
  std::vector<double> rolling_likelihoods(const std::vector<std::string>& texts, const OnAnswered&) override {
    if (!texts.empty()) throw no_likelihoods();
    return {};
  }

  std::vector<std::string> generate(const std::vector<GenerationRequest>& requests, const OnAnswered& answered) override {
    std::vector<std::string> answers(requests.size());
    std::mutex guard;
    run_concurrently(requests.size(), server_.concurrency, [&](size_t i) {
      answers[i] = answer(requests[i]);
      std::lock_guard lock(guard);
      answered(1);
    });
    return answers;
  }

 private:
  static UserError no_likelihoods() {
    return UserError(ExitCode::usage, "a server generates text and returns no log-likelihoods",
                     "run tasks with output_type generate_until there, or give `model` instead of `eval_url`");
  }

  std::string answer(const GenerationRequest& request) const {
    Json messages = Json::array();
    for (const auto& message : multiturn_ ? request.prompt : as_single_turn(request.prompt))
      messages.push_back({{"role", message.role}, {"content", message.content}});
    const auto& kwargs = request.kwargs;
    Json settings{{"max_tokens", kwargs.max_gen_toks}, {"temperature", kwargs.temperature}, {"top_p", kwargs.top_p}};
    if (!kwargs.until.empty())
      settings["stop"] = std::vector<std::string>(
          kwargs.until.begin(), kwargs.until.begin() + static_cast<long>(std::min<size_t>(4, kwargs.until.size())));
    if (kwargs.temperature > 0) settings["seed"] = request.seed & 0x7FFFFFFF;
    auto answers = ask_chat_server(server_, messages, settings);
    auto text = answers.empty() ? std::string() : answers[0].content;
    for (const auto& stop : kwargs.until)  // also those that did not fit into the request
      if (auto at = text.find(stop); at != text.npos) text.resize(at);
    return text;
  }

  ChatServer server_;
  bool multiturn_;
};

}  // namespace

std::unique_ptr<Model> make_remote_model(ChatServer server, bool fewshot_as_multiturn) {
  completions_url(server.url);
  return std::make_unique<RemoteModel>(std::move(server), fewshot_as_multiturn);
}

}  // namespace hone::eval

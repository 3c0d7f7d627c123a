#include "hone/eval/models/chat_client.h"

#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "hone/hub/post_json.h"

namespace hone::eval {

std::string completions_url(const std::string& url) {
  constexpr std::string_view kEnd = "/chat/completions";
  if (!hub::read_address(url))
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not an address", url),
                    "expected something like http://127.0.0.1:8000/v1");
  auto address = url;
  while (address.ends_with('/')) address.pop_back();
  if (address.ends_with(kEnd)) return address;
  auto path = hub::read_address(address)->path;
  return address + (path.empty() ? "/v1" : "") + std::string(kEnd);
}

std::vector<ChatAnswer> ask_chat_server(const ChatServer& server, const Json& messages, const Json& settings) {
  Json body{{"model", server.model}, {"messages", messages}};
  body.update(settings);
  auto address = completions_url(server.url);
  auto shown = hub::read_address(address)->shown;
  std::string reply;
  try {
    reply = hub::post_json(address, body.dump(-1, ' ', false, Json::error_handler_t::replace),
                           {.timeout = std::chrono::seconds(static_cast<int64_t>(std::ceil(server.timeout))),
                            .is_cancelled = {},
                            .bearer_token = server.api_key});
  } catch (const std::runtime_error& problem) {
    throw UserError(ExitCode::failure, fmt::format("the request to {} failed: {}", shown, problem.what()),
                    "check that the server is running and serves the model");
  }
  auto parsed = parse_json(reply);
  auto unknown = [&](const std::string& found) {
    return UserError(ExitCode::failure, fmt::format("{} answered {}", shown, found), "expected OpenAI's chat completions");
  };
  if (!parsed) throw unknown("no JSON: " + parsed.error());
  if (!parsed->is_object() || !parsed->contains("choices") || !(*parsed)["choices"].is_array()) throw unknown("without choices");
  std::vector<ChatAnswer> answers;
  for (const auto& choice : (*parsed)["choices"]) {
    auto message = choice.is_object() ? choice.value("message", Json::object()) : Json();
    if (!message.is_object() || !message.contains("content")) throw unknown("a choice without a message");
    auto text_of = [&](const char* key) {
      return message.contains(key) && message[key].is_string() ? message[key].get<std::string>() : std::string();
    };
    answers.push_back({text_of("content"), text_of("reasoning_content")});
  }
  return answers;
}

void run_concurrently(size_t count, int64_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        std::lock_guard lock(guard);
        if (!failure) failure = std::current_exception();
        next = count;
      }
  };
  std::vector<std::jthread> workers;
  for (int64_t i = 0; i < std::min<int64_t>(threads, static_cast<int64_t>(count)); ++i) workers.emplace_back(run);
  workers.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace hone::eval

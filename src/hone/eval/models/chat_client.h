// Chat requests to an OpenAI-compatible server, several at a time.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::eval {

struct ChatServer {
  std::string url;  // http://host:port/v1, or all of …/chat/completions
  std::string model, api_key;
  int64_t concurrency = 16;
  double timeout = 600;  // seconds for one request, its tries included
};

struct ChatAnswer {
  std::string content, reasoning;  // the second of models that think apart
};

// Throws UserError(usage) for an invalid URL.
std::string completions_url(const std::string& url);

// One request's choices. `settings` are merged into the request: temperature, n, stop … Throws UserError(failure).
std::vector<ChatAnswer> ask_chat_server(const ChatServer& server, const Json& messages, const Json& settings);

// Runs `work` for 0 … count - 1 on `threads` threads; rethrows the first exception once all have stopped.
void run_concurrently(size_t count, int64_t threads, const std::function<void(size_t)>& work);

}  // namespace hone::eval

// Requests to all workers: lists, sessions, metrics. I/O thread.
#pragma once
#include "hone/tinker/api/call.h"
#include "hone/tinker/gateway/directory.h"

namespace hone::tinker {

class MergedAnswers {
 public:
  explicit MergedAnswers(Directory& directory) : directory_(directory) {}

  using Answer = asio::awaitable<serve::HttpResponse>;
  Answer capabilities(const Call& call);
  Answer openai_models(const Call& call);
  // A list of entries with a time, newest first. Includes the names of models whose workers do not respond.
  Answer list(const Call& call, const char* field, const char* time, int64_t limit);
  Answer sessions(const Call& call);
  Answer session(const Call& call);
  // A session exists on all workers, so that a client may train several models.
  Answer create_session(const Call& call);
  Answer heartbeat(const Call& call);
  Answer finish_session(const Call& call);
  Answer cancel_future(const Call& call);
  // Creates the session on a worker that joined later.
  // False: it is unknown, or that worker already has it.
  asio::awaitable<bool> adopt_session(Worker& worker, const Call& call, const std::string& session);
  Answer status(const Call& call);
  Answer metrics(const Call& call);
  Answer capacity(const Call& call);
  Answer health(const Call& call);

 private:
  struct WorkerAnswer {
    std::shared_ptr<Worker> worker;
    serve::HttpResponse response;
    Json body;  // an empty object where it is none
  };
  // The responses of the available workers.
  asio::awaitable<std::vector<WorkerAnswer>> ask_all(const Call& call, std::string method, std::string path,
                                                     std::string body = {});
  asio::awaitable<Json> collect(const Call& call, const char* field, int64_t count, int64_t& total);
  Json unreachable_models() const;
  static serve::HttpResponse best_of(std::vector<WorkerAnswer> answers);

  Directory& directory_;
  double started_ = unix_seconds();
};

}  // namespace hone::tinker

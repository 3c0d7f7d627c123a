// Requests to all workers: lists, sessions, metrics. I/O thread.
#pragma once
#include "hone/tinker/api/call.h"
#include "hone/tinker/gateway/directory.h"

namespace hone::tinker {

class MergedResponses {
 public:
  explicit MergedResponses(Directory& directory) : directory_(directory) {}

  using PendingResponse = asio::awaitable<serve::HttpResponse>;
  PendingResponse capabilities(const Call& call);
  PendingResponse openai_models(const Call& call);
  // A list of entries with a time, newest first. Includes the names of models whose workers do not respond.
  PendingResponse list(const Call& call, const char* field, const char* time, int64_t limit);
  PendingResponse sessions(const Call& call);
  PendingResponse session(const Call& call);
  // A session exists on all workers, so that a client may train several models.
  PendingResponse create_session(const Call& call);
  PendingResponse heartbeat(const Call& call);
  PendingResponse finish_session(const Call& call);
  PendingResponse cancel_future(const Call& call);
  // Creates the session on a worker that joined later.
  // False: it is unknown, or that worker already has it.
  asio::awaitable<bool> adopt_session(Worker& worker, const Call& call, const std::string& session);
  PendingResponse status(const Call& call);
  PendingResponse metrics(const Call& call);
  PendingResponse capacity(const Call& call);
  PendingResponse health(const Call& call);

 private:
  struct WorkerResponse {
    std::shared_ptr<Worker> worker;
    serve::HttpResponse response;
    Json body;  // an empty object where it is none
  };
  // The responses of the available workers.
  asio::awaitable<std::vector<WorkerResponse>> send_to_all(const Call& call, std::string method, std::string path,
                                                           std::string body = {});
  asio::awaitable<Json> collect(const Call& call, const char* field, int64_t count, int64_t& total);
  Json unreachable_models() const;
  static serve::HttpResponse best_of(std::vector<WorkerResponse> responses);

  Directory& directory_;
  double started_ = unix_seconds();
};

}  // namespace hone::tinker

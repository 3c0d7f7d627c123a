// Which worker has what: a model by its name, a run, a sampler or a checkpoint by asking. I/O thread.
#pragma once
#include <filesystem>
#include <map>

#include "hone/tinker/gateway/worker.h"

namespace hone::tinker {

struct DirectoryConfig {
  std::vector<std::string> worker_urls;  // "@FILE" has one a line, and is read again when it changes
  serve::TrustedCertificates trusted;
};

using WorkerList = std::vector<std::shared_ptr<Worker>>;

// A request with the headers of the client's that a worker is to see: its key above all.
serve::UpstreamRequest request_like(const serve::HttpRequest& asked, std::string method, std::string path,
                                    std::string_view body = {});
// The client's request as it is, for a worker.
serve::UpstreamRequest forwarded(const serve::HttpRequest& asked);

class Directory {
 public:
  // Throws UserError(usage) for an address that is none.
  Directory(asio::io_context& io, DirectoryConfig config);

  const WorkerList& workers() const { return workers_; }
  bool all_alive() const;
  // Begins to watch the workers, and the files that name them.
  void start();

  // What a client names, by what this gateway passes its key on with. Each throws ApiError(404) for what no worker has, and
  // ApiError(503) when it may be at a worker that does not answer until `deadline`.
  struct Asking {
    const std::string& tenant;
    const serve::HttpRequest& request;
    serve::Clock::time_point deadline;
  };
  // Of the workers with this base model, always the same one for a tenant: what it saved is where it trains.
  asio::awaitable<std::shared_ptr<Worker>> of_model(Asking asking, std::string base_model);
  asio::awaitable<std::shared_ptr<Worker>> of_run(Asking asking, std::string run);
  asio::awaitable<std::shared_ptr<Worker>> of_sampler(Asking asking, std::string sampler);
  asio::awaitable<std::shared_ptr<Worker>> of_checkpoint(Asking asking, std::string tinker_path);
  // Any that answers.
  asio::awaitable<std::shared_ptr<Worker>> any(Asking asking);

  // Asks workers that are not known yet which models they have.
  asio::awaitable<void> learn_models(const serve::HttpRequest& asked);
  WorkerList with_model(std::string_view base_model) const;
  std::vector<std::string> model_names() const;

 private:
  void read_urls();
  void read_files();
  asio::awaitable<void> watch_files();
  asio::awaitable<std::shared_ptr<Worker>> find(Asking asking, std::string id, serve::UpstreamRequest question, std::string what);
  // For the workers to change; throws ApiError(503) when the deadline has passed.
  static asio::awaitable<void> wait_a_little(serve::Clock::time_point deadline);

  asio::io_context& io_;
  DirectoryConfig config_;
  WorkerList workers_;
  size_t next_number_ = 0;
  bool started_ = false;
  std::map<std::filesystem::path, std::filesystem::file_time_type> files_;
  std::map<std::string, std::weak_ptr<Worker>> known_;  // where a run, sampler or checkpoint was found
};

serve::ApiError unreachable_worker();
inline constexpr const char* kUnknownModel = "model_not_found";

}  // namespace hone::tinker

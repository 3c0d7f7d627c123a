// Locates workers: a model by its name; a run, a sampler or a checkpoint by querying. I/O thread.
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

// A request with the client's headers that a worker needs, above all its key.
serve::UpstreamRequest request_like(const serve::HttpRequest& asked, std::string method, std::string path,
                                    std::string_view body = {});
// The client's request, unchanged, for a worker.
serve::UpstreamRequest forwarded(const serve::HttpRequest& asked);

class Directory {
 public:
  // Throws UserError(usage) for an invalid URL.
  Directory(asio::io_context& io, DirectoryConfig config);

  const WorkerList& workers() const { return workers_; }
  bool all_alive() const;
  // Starts to monitor the workers, and the files that list them.
  void start();

  // Locates what a client names, with the client's key. Each throws ApiError(404) if no worker has it, and ApiError(503) if it
  // may be on a worker that does not respond until `deadline`.
  struct Asking {
    const std::string& tenant;
    const serve::HttpRequest& request;
    serve::Clock::time_point deadline;
  };
  // Among the workers with this base model, always the same one for a tenant, so that its checkpoints are where it trains.
  asio::awaitable<std::shared_ptr<Worker>> of_model(Asking asking, std::string base_model);
  asio::awaitable<std::shared_ptr<Worker>> of_run(Asking asking, std::string run);
  asio::awaitable<std::shared_ptr<Worker>> of_sampler(Asking asking, std::string sampler);
  asio::awaitable<std::shared_ptr<Worker>> of_checkpoint(Asking asking, std::string tinker_path);
  // Any available worker.
  asio::awaitable<std::shared_ptr<Worker>> any(Asking asking);

  // Queries the models of workers that are not known yet.
  asio::awaitable<void> learn_models(const serve::HttpRequest& asked);
  WorkerList with_model(std::string_view base_model) const;
  std::vector<std::string> model_names() const;

 private:
  void read_urls();
  void read_files();
  asio::awaitable<void> watch_files();
  asio::awaitable<std::shared_ptr<Worker>> find(Asking asking, std::string id, serve::UpstreamRequest question, std::string what);
  // Waits for a change of the workers; throws ApiError(503) after the deadline.
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

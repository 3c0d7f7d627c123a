// Context of every handler: the client, its request, and the components of the server.
#pragma once
#include <map>
#include <mutex>

#include "hone/serve/admin/metrics.h"
#include "hone/serve/http/api_error.h"
#include "hone/tinker/api/futures.h"
#include "hone/tinker/api/tar.h"
#include "hone/tinker/api/token_rate.h"
#include "hone/tinker/model/model_loop.h"

namespace hone::tinker {

struct ApiConfig {
  std::string base_model;  // as clients call it, and as their AutoTokenizer loads its tokenizer
  int64_t max_length = 0;  // of a prompt and its completion, and of a datum
  int64_t max_rank = 256;
  int64_t max_adapters = 64;
  int64_t max_pending = 4096;  // training requests of a tenant that are not done
  int64_t max_pending_bytes = int64_t{1} << 30;
  size_t max_samples = 4096;  // sampling requests of a tenant that are not done
  bool is_tls = false;
  std::filesystem::path dataset_root;  // files that Twinkle's clients may name as datasets are below it; "": none are
};

// Downloads by a temporary URL that includes its own authorization.
class Archives {
 public:
  std::string add(const std::string& folder);  // the token
  std::optional<std::string> folder_of(const std::string& token);

 private:
  struct Entry {
    std::string folder;
    double expires;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

struct Services {
  const ApiConfig& config;
  Store& store;
  ModelLoop& loop;
  Futures& futures;
  Archives& archives;
  const AllTenantLimits& limits;
  TokenRate& rate;
  serve::Metrics& metrics;
  double started = unix_seconds();
};

struct Call {
  std::string tenant;
  const serve::HttpRequest& request;
  std::vector<std::string> parts;                   // of the path, where its route has {}
  ModelLoop::Announcement* announcement = nullptr;  // of a training request
};

using Handler = serve::HttpResponse (*)(Services& services, const Call& call);

Json body_of(const Call& call);                 // ApiError(400) when it is not a JSON object
Page page_of(const Call& call, int64_t limit);  // of the query
std::string query_value(const Call& call, std::string_view name);
serve::HttpResponse no_content();                    // 200 with an empty object
serve::ApiError not_found(const std::string& what);  // also for what belongs to another tenant

// sessions.cpp
serve::HttpResponse client_config(Services& services, const Call& call);
serve::HttpResponse dynamic_config(Services& services, const Call& call);
serve::HttpResponse capabilities(Services& services, const Call& call);
serve::HttpResponse create_session(Services& services, const Call& call);
serve::HttpResponse session_heartbeat(Services& services, const Call& call);
serve::HttpResponse finish_session(Services& services, const Call& call);
serve::HttpResponse list_sessions(Services& services, const Call& call);
serve::HttpResponse get_session(Services& services, const Call& call);
serve::HttpResponse telemetry(Services& services, const Call& call);
// training.cpp
serve::HttpResponse create_model(Services& services, const Call& call);
serve::HttpResponse get_info(Services& services, const Call& call);
serve::HttpResponse unload_model(Services& services, const Call& call);
serve::HttpResponse forward_backward(Services& services, const Call& call);
serve::HttpResponse forward(Services& services, const Call& call);
serve::HttpResponse optim_step(Services& services, const Call& call);
serve::HttpResponse save_weights(Services& services, const Call& call);
serve::HttpResponse save_weights_for_sampler(Services& services, const Call& call);
serve::HttpResponse load_weights(Services& services, const Call& call);
// sampling.cpp
serve::HttpResponse create_sampling_session(Services& services, const Call& call);
serve::HttpResponse get_sampler(Services& services, const Call& call);
serve::HttpResponse asample(Services& services, const Call& call);
serve::HttpResponse cancel_future(Services& services, const Call& call);
// Cancels a tenant's sample unless it is done: the engine stops computing it.
void cancel_sample(Services& services, const std::string& tenant, const std::string& id);
// Spends the tenant's tokens and queues the sample; a retry, whose id is known, changes nothing. ApiError(429) if `most` samples
// of the tenant are not done, or its tokens are spent.
void queue_sample(Services& services, const std::string& tenant, size_t most, SampleJob job);
// Called before a training request is stored. ApiError(429) if its tenant has reached its limit of requests or tokens.
void require_room(Services& services, const std::string& tenant, int64_t tokens);
// The folder of a checkpoint by its path, or of a sampler by its id, if this tenant may use it.
std::optional<std::string> saved_adapter(Services& services, const std::string& tenant, const std::string& name);
// checkpoints.cpp
serve::HttpResponse weights_info(Services& services, const Call& call);
serve::HttpResponse list_runs(Services& services, const Call& call);
serve::HttpResponse get_run(Services& services, const Call& call);
serve::HttpResponse run_checkpoints(Services& services, const Call& call);
serve::HttpResponse all_checkpoints(Services& services, const Call& call);
serve::HttpResponse delete_checkpoint(Services& services, const Call& call);
serve::HttpResponse archive_address(Services& services, const Call& call);
std::unique_ptr<TarReader> open_archive(Services& services, const Call& call);
serve::HttpResponse publish(Services& services, const Call& call);
serve::HttpResponse unpublish(Services& services, const Call& call);
serve::HttpResponse set_ttl(Services& services, const Call& call);
void remove_expired(Store& store);
// Removes files that a killed server wrote but did not record.
void remove_unnamed_folders(const std::filesystem::path& root, Store& store);

// twinkle/gateway.cpp
serve::HttpResponse capacity_info(Services& services, const Call& call);
serve::HttpResponse checkpoint_path(Services& services, const Call& call);
serve::HttpResponse deep_health(Services& services, const Call& call);
// status/status.cpp
serve::HttpResponse status(Services& services, const Call& call);
serve::HttpResponse metrics(Services& services, const Call& call);
serve::HttpResponse status_page(Services& services, const Call& call);
serve::HttpResponse status_file(const Call& call);  // the page itself

// The result of a future, or its error; none while it is pending. JSON for clients that do not accept protobuf.
std::optional<serve::HttpResponse> result_of(Services& services, const Call& call, const std::string& id);

}  // namespace hone::tinker

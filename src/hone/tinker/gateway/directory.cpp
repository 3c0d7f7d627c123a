#include "hone/tinker/gateway/directory.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/stable_hash.h"
#include "hone/base/strings/percent.h"
#include "hone/base/strings/trimmed.h"
#include "hone/serve/http/in_flight.h"
#include "hone/tinker/api/call.h"

namespace hone::tinker {
namespace {

constexpr size_t kMostKnown = 100'000;
constexpr std::chrono::milliseconds kLookAtFilesEvery{1000}, kLookForWorkersEvery{200};

// For one connection, or for the gateway itself.
constexpr std::string_view kKeptBack[] = {"host",    "connection", "content-length", "transfer-encoding",   "te",     "trailer",
                                          "upgrade", "keep-alive", "expect",         "proxy-authorization", "origin", "referer"};

}  // namespace

serve::ApiError unreachable_worker() {
  serve::ApiError problem(503, "the worker that has this does not respond now; try again", "", "worker_unreachable");
  problem.retry_after = 1;
  return problem;
}

serve::UpstreamRequest request_like(const serve::HttpRequest& asked, std::string method, std::string path,
                                    std::string_view body) {
  serve::UpstreamRequest request{std::move(method), std::move(path), {}, body};
  for (const auto* name : {"x-api-key", "authorization"})
    if (auto value = asked.header(name); !value.empty()) request.headers.emplace_back(name, std::string(value));
  if (!body.empty()) request.headers.emplace_back("content-type", "application/json");
  return request;
}

serve::UpstreamRequest forwarded(const serve::HttpRequest& asked) {
  auto path = asked.query.empty() ? asked.path : asked.path + "?" + asked.query;
  serve::UpstreamRequest request{asked.method, std::move(path), {}, asked.body};
  for (const auto& header : asked.headers)
    if (!std::ranges::count(kKeptBack, header.first)) request.headers.push_back(header);
  return request;
}

Directory::Directory(asio::io_context& io, DirectoryConfig config) : io_(io), config_(std::move(config)) { read_urls(); }

bool Directory::all_alive() const {
  return std::ranges::all_of(workers_, [](const auto& worker) { return worker->is_alive(); });
}

// Workers still listed are kept with what is known about them.
void Directory::read_urls() {
  std::vector<std::string> urls;
  for (const auto& word : config_.worker_urls) {
    if (!word.starts_with('@')) {
      urls.push_back(word);
      continue;
    }
    const std::filesystem::path file = word.substr(1);
    std::istringstream lines(read_file(file));
    files_[file] = std::filesystem::last_write_time(file);
    for (std::string line; std::getline(lines, line);)
      if (line = trimmed(line); !line.empty() && !line.starts_with('#')) urls.push_back(line);
  }
  WorkerList now;
  for (const auto& url : urls) {
    const auto is_it = [&](const auto& worker) { return worker->url() == url; };
    if (std::ranges::any_of(now, is_it)) continue;
    auto found = std::ranges::find_if(workers_, is_it);
    now.push_back(found != workers_.end() ? *found : std::make_shared<Worker>(next_number_++, url, config_.trusted));
    if (found == workers_.end() && started_) asio::co_spawn(io_, Worker::watch(now.back()), asio::detached);
  }
  for (const auto& worker : workers_)
    if (!std::ranges::count(now, worker)) {
      log::info("worker {} at {} is not named any more", worker->number(), worker->url());
      worker->remove();
    }
  workers_ = std::move(now);
}

void Directory::read_files() {
  std::error_code gone;
  const bool changed = std::ranges::any_of(
      files_, [&](const auto& file) { return std::filesystem::last_write_time(file.first, gone) != file.second && !gone; });
  if (!changed) return;
  try {
    read_urls();
  } catch (const UserError& problem) {
    log::error("{}; the workers stay as they were", problem.what());
    for (auto& [file, time] : files_) time = std::filesystem::last_write_time(file, gone);  // until it changes again
  }
}

asio::awaitable<void> Directory::watch_files() {
  while (true) {
    co_await serve::pause(kLookAtFilesEvery);
    read_files();
  }
}

void Directory::start() {
  started_ = true;
  for (const auto& worker : workers_) asio::co_spawn(io_, Worker::watch(worker), asio::detached);
  if (!files_.empty()) asio::co_spawn(io_, watch_files(), asio::detached);
}

WorkerList Directory::with_model(std::string_view base_model) const {
  WorkerList with;
  for (const auto& worker : workers_)
    if (worker->has_model(base_model)) with.push_back(worker);
  return with;
}

std::vector<std::string> Directory::model_names() const {
  std::vector<std::string> names;
  for (const auto& worker : workers_)
    if (worker->models().is_array())
      for (const auto& model : worker->models())
        if (auto name = model.value("model_name", ""); !std::ranges::count(names, name)) names.push_back(name);
  return names;
}

// A worker that returned may have been started with another model, so it is queried again.
asio::awaitable<void> Directory::learn_models(const serve::HttpRequest& asked) {
  const auto workers = workers_;
  for (const auto& worker : workers) {
    if (!worker->is_alive() || !worker->models().is_null()) continue;
    try {
      auto question = request_like(asked, "GET", "/api/v1/get_server_capabilities");
      const auto reply = co_await worker->ask(std::move(question), serve::UpstreamLimits());
      const auto parsed = parse_json(reply.body);
      if (reply.status == 200 && parsed && parsed->is_object() && parsed->contains("supported_models"))
        worker->set_models((*parsed)["supported_models"]);
      else
        log::error("worker {} at {} answers {} when asked for its models{}", worker->number(), worker->url(), reply.status,
                   reply.status == 401 ? ": give it the same API keys as the gateway" : "");
    } catch (const serve::ApiError&) {  // it is queried again
    }
  }
}

asio::awaitable<void> Directory::wait_a_little(serve::Clock::time_point deadline) {
  if (serve::Clock::now() >= deadline) throw unreachable_worker();
  co_await serve::pause(kLookForWorkersEvery);
}

asio::awaitable<std::shared_ptr<Worker>> Directory::any(Asking asking) {
  while (true) {
    for (const auto& worker : workers_)
      if (worker->is_alive()) co_return worker;
    co_await wait_a_little(asking.deadline);
  }
}

// Rendezvous hashing of tenant and worker: adding or removing a worker moves only that worker's tenants.
asio::awaitable<std::shared_ptr<Worker>> Directory::of_model(Asking asking, std::string base_model) {
  while (true) {
    co_await learn_models(asking.request);
    const auto with = with_model(base_model);
    if (!with.empty()) {
      const auto weight = [&](const auto& worker) { return stable_hash(worker->url(), stable_hash(asking.tenant)); };
      co_return *std::ranges::max_element(with, {}, weight);
    }
    if (!workers_.empty() && std::ranges::none_of(workers_, [](const auto& worker) { return worker->models().is_null(); }))
      throw serve::ApiError(400,
                            fmt::format("base_model is \"{}\"; the workers have {}", base_model, fmt::join(model_names(), ", ")),
                            "base_model", kUnknownModel);
    co_await wait_a_little(asking.deadline);
  }
}

asio::awaitable<std::shared_ptr<Worker>> Directory::find(Asking asking, std::string id, serve::UpstreamRequest question,
                                                         std::string what) {
  if (auto found = known_.find(id); found != known_.end())
    if (auto worker = found->second.lock(); worker && std::ranges::count(workers_, worker)) co_return worker;
  while (true) {
    const auto workers = workers_;
    bool all_asked = true;
    for (const auto& worker : workers) {
      int status = 0;
      if (worker->is_alive()) try {
          auto copy = question;
          const auto reply = co_await worker->ask(std::move(copy), serve::UpstreamLimits());
          status = reply.status;
        } catch (const serve::ApiError&) {  // it may respond the next time
        }
      all_asked = all_asked && status != 0;
      if (status == 401)
        log::error("worker {} at {} does not know a key that the gateway knows", worker->number(), worker->url());
      if (status != 200) continue;
      if (known_.size() >= kMostKnown) known_.clear();
      known_[id] = worker;
      co_return worker;
    }
    if (all_asked && !workers.empty()) throw not_found(what);
    co_await wait_a_little(asking.deadline);
  }
}

asio::awaitable<std::shared_ptr<Worker>> Directory::of_run(Asking asking, std::string run) {
  auto question = request_like(asking.request, "GET", "/api/v1/training_runs/" + percent_encoded(run));
  co_return co_await find(asking, run, std::move(question), "model " + run);
}

asio::awaitable<std::shared_ptr<Worker>> Directory::of_sampler(Asking asking, std::string sampler) {
  auto question = request_like(asking.request, "GET", "/api/v1/samplers/" + percent_encoded(sampler));
  co_return co_await find(asking, sampler, std::move(question), "sampler " + sampler);
}

asio::awaitable<std::shared_ptr<Worker>> Directory::of_checkpoint(Asking asking, std::string tinker_path) {
  const auto body = Json{{"tinker_path", tinker_path}}.dump(-1, ' ', true, Json::error_handler_t::replace);
  auto question = request_like(asking.request, "POST", "/api/v1/weights_info", body);
  co_return co_await find(asking, tinker_path, std::move(question), "checkpoint " + tinker_path);
}

}  // namespace hone::tinker

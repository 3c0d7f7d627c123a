#include "hone/tinker/gateway/merged_responses.h"

#include <algorithm>

#include "hone/base/strings/percent.h"
#include "hone/base/version.h"
#include "hone/serve/http/head.h"
#include "hone/tinker/gateway/merge.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr int64_t kPageOfWorker = 1000;

std::string session_path(const std::string& session) { return "/api/v1/sessions/" + percent_encoded(session); }

}  // namespace

asio::awaitable<std::vector<MergedResponses::WorkerResponse>> MergedResponses::send_to_all(const Call& call, std::string method,
                                                                                           std::string path, std::string body) {
  std::vector<WorkerResponse> all;
  const auto workers = directory_.workers();
  for (const auto& worker : workers) {
    if (!worker->is_alive()) continue;
    try {
      auto question = request_like(call.request, method, path, body);
      auto response = co_await worker->ask(std::move(question), serve::UpstreamLimits());
      auto parsed = parse_json(response.body);
      const bool is_object = parsed && parsed->is_object();
      all.push_back({worker, std::move(response), is_object ? std::move(*parsed) : Json::object()});
    } catch (const serve::ApiError&) {  // treated as unavailable
    }
  }
  if (all.empty()) throw unreachable_worker();
  co_return all;
}

// The first success; otherwise the usual error: there is nothing of this name.
serve::HttpResponse MergedResponses::best_of(std::vector<WorkerResponse> responses) {
  const auto good = std::ranges::find_if(responses, [](const WorkerResponse& each) { return each.response.status == 200; });
  return std::move((good != responses.end() ? good : responses.begin())->response);
}

Json MergedResponses::unreachable_models() const {
  Json names = Json::array();
  for (const auto& worker : directory_.workers())
    if (!worker->is_alive() && worker->models().is_array())
      for (const auto& model : worker->models()) names.push_back(model.value("model_name", ""));
  return names;
}

MergedResponses::PendingResponse MergedResponses::capabilities(const Call& call) {
  co_await directory_.learn_models(call.request);
  Json models = Json::array();
  for (const auto& worker : directory_.workers())
    if (worker->models().is_array())
      for (const auto& model : worker->models())
        if (!std::ranges::count(models, model)) models.push_back(model);
  if (models.empty()) throw unreachable_worker();
  co_return serve::json_response({{"supported_models", models}});
}

MergedResponses::PendingResponse MergedResponses::openai_models(const Call& call) {
  const auto responses = co_await send_to_all(call, "GET", "/v1/models");
  Json data = Json::array();
  for (const auto& each : responses)
    for (const auto& model : each.body.value("data", Json::array()))
      if (std::ranges::none_of(data, [&](const Json& other) { return other.value("id", "") == model.value("id", ""); }))
        data.push_back(model);
  co_return serve::json_response({{"object", "list"}, {"data", data}});
}

asio::awaitable<Json> MergedResponses::collect(const Call& call, const char* field, int64_t count, int64_t& total) {
  Json entries = Json::array();
  bool first = true;
  for (int64_t offset = 0; first || offset < count; offset += kPageOfWorker) {
    auto query = fmt::format("{}?limit={}&offset={}", call.request.path, std::min(count - offset, kPageOfWorker), offset);
    for (const char* name : {"access_scope", "project_id"})
      if (auto value = query_value(call, name); !value.empty()) query += fmt::format("&{}={}", name, percent_encoded(value));
    const auto responses = co_await send_to_all(call, "GET", std::move(query));
    size_t arrived = 0;
    for (const auto& each : responses) {
      if (each.response.status != 200) continue;
      const auto list = each.body.value(field, Json::array());
      arrived += list.size();
      entries.insert(entries.end(), list.begin(), list.end());
      if (first) total += each.body.value("cursor", Json::object()).value("total_count", static_cast<int64_t>(list.size()));
    }
    first = false;
    if (arrived == 0) break;
  }
  co_return entries;
}

MergedResponses::PendingResponse MergedResponses::list(const Call& call, const char* field, const char* time, int64_t limit) {
  const auto page = page_of(call, limit);
  int64_t total = 0;
  auto entries = co_await collect(call, field, page.offset + page.limit, total);
  co_return serve::json_response({{field, page_of_entries(std::move(entries), time, page)},
                                  {"cursor", {{"offset", page.offset}, {"limit", page.limit}, {"total_count", total}}},
                                  {"unreachable_models", unreachable_models()}});
}

MergedResponses::PendingResponse MergedResponses::sessions(const Call& call) {
  const auto page = page_of(call, 20);
  int64_t ignored = 0;
  auto all = co_await collect(call, "sessions", page.offset + page.limit, ignored);
  Json ids = Json::array();
  for (const auto& id : all)
    if (!std::ranges::count(ids, id)) ids.push_back(id);
  co_return serve::json_response({{"sessions", page_of_entries(std::move(ids), nullptr, page)}});
}

MergedResponses::PendingResponse MergedResponses::session(const Call& call) {
  auto responses = co_await send_to_all(call, "GET", session_path(call.parts.at(0)));
  Json session;
  for (const auto& each : responses) {
    if (each.response.status != 200) continue;
    if (session.is_null()) {
      session = each.body;
      continue;
    }
    for (const char* list : {"training_run_ids", "sampler_ids"})
      for (const auto& id : each.body.value(list, Json::array())) session[list].push_back(id);
  }
  co_return session.is_null() ? best_of(std::move(responses)) : serve::json_response(session);
}

MergedResponses::PendingResponse MergedResponses::create_session(const Call& call) {
  auto body = body_of(call);
  body["session_id"] = serve::fresh_id("");
  auto responses = co_await send_to_all(call, "POST", call.request.path, serve::dump(body));
  co_return best_of(std::move(responses));
}

MergedResponses::PendingResponse MergedResponses::heartbeat(const Call& call) {
  auto responses = co_await send_to_all(call, "POST", call.request.path, call.request.body);
  auto best = best_of(std::move(responses));
  if (best.status == 404 && !directory_.all_alive()) throw unreachable_worker();
  co_return best;
}

MergedResponses::PendingResponse MergedResponses::finish_session(const Call& call) {
  auto responses = co_await send_to_all(call, "POST", session_path(call.parts.at(0)) + "/finish");
  co_return best_of(std::move(responses));
}

// Workers without it respond as if it were done.
MergedResponses::PendingResponse MergedResponses::cancel_future(const Call& call) {
  auto responses = co_await send_to_all(call, "POST", call.request.path, call.request.body);
  co_return best_of(std::move(responses));
}

asio::awaitable<bool> MergedResponses::adopt_session(Worker& worker, const Call& call, const std::string& session) {
  if (!serve::is_fresh_id(session)) co_return false;
  auto responses = co_await send_to_all(call, "GET", session_path(session));
  const WorkerResponse* known = nullptr;
  for (const auto& each : responses) {
    if (each.response.status != 200) continue;
    if (each.worker.get() == &worker) co_return false;
    known = &each;
  }
  if (!known && !directory_.all_alive()) throw unreachable_worker();
  if (!known) co_return false;
  const auto body = serve::dump({{"session_id", session}, {"user_metadata", known->body.value("user_metadata", Json())}});
  auto question = request_like(call.request, "POST", "/api/v1/create_session", body);
  const auto reply = co_await worker.ask(std::move(question), serve::UpstreamLimits());
  co_return reply.status == 200;
}

MergedResponses::PendingResponse MergedResponses::status(const Call& call) {
  co_await directory_.learn_models(call.request);
  const auto responses = co_await send_to_all(call, "GET", "/api/v1/status");
  Json server = Json::object(), tenant = Json::object(), runs = Json::array(), workers = Json::array();
  for (const auto& each : responses) {
    if (each.response.status != 200) continue;
    add_numbers(server, each.body.value("server", Json::object()));
    add_numbers(tenant, each.body.value("tenant", Json::object()));
    for (const auto& run : each.body.value("runs", Json::array())) runs.push_back(run);
  }
  std::ranges::stable_sort(runs.get_ref<Json::array_t&>(), std::greater(),
                           [](const Json& run) { return run.value("last_request", 0.0); });
  for (const auto& worker : directory_.workers()) {
    const auto found = std::ranges::find_if(responses, [&](const WorkerResponse& each) { return each.worker == worker; });
    Json entry = {{"worker", worker->number()}, {"alive", worker->is_alive()}, {"models", Json::array()}};
    if (worker->models().is_array())
      for (const auto& model : worker->models()) entry["models"].push_back(model.value("model_name", ""));
    if (found != responses.end() && found->response.status == 200) entry["server"] = found->body.value("server", Json::object());
    workers.push_back(entry);
  }
  server["version"] = version();
  server["seconds"] = unix_seconds() - started_;
  server["base_model"] = fmt::format("{}", fmt::join(directory_.model_names(), ", "));
  // Every worker has its own limits, which are the same on all.
  if (const auto limits = std::ranges::find_if(responses, [](const WorkerResponse& each) { return each.response.status == 200; });
      limits != responses.end())
    for (const char* name : {"priority", "tokens_per_minute"})
      tenant[name] = limits->body.value("tenant", Json::object()).value(name, int64_t{0});
  co_return serve::json_response({{"server", server}, {"tenant", tenant}, {"runs", runs}, {"workers", workers}});
}

MergedResponses::PendingResponse MergedResponses::metrics(const Call& call) {
  std::string own =
      "# HELP hone_tinker_gateway_worker_up Whether the worker responds.\n# TYPE hone_tinker_gateway_worker_up gauge\n";
  for (const auto& worker : directory_.workers())
    own += fmt::format("hone_tinker_gateway_worker_up{{worker=\"{}\"}} {}\n", worker->number(), worker->is_alive() ? 1 : 0);
  own +=
      "# HELP hone_tinker_gateway_requests_total Requests sent to the worker.\n# TYPE hone_tinker_gateway_requests_total "
      "counter\n";
  for (const auto& worker : directory_.workers())
    own += fmt::format("hone_tinker_gateway_requests_total{{worker=\"{}\"}} {}\n", worker->number(), worker->requests());
  own +=
      "# HELP hone_tinker_gateway_failures_total Requests to the worker whose connection broke.\n"
      "# TYPE hone_tinker_gateway_failures_total counter\n";
  for (const auto& worker : directory_.workers())
    own += fmt::format("hone_tinker_gateway_failures_total{{worker=\"{}\"}} {}\n", worker->number(), worker->failures());
  std::vector<std::pair<std::string, std::string>> texts;
  if (std::ranges::any_of(directory_.workers(), [](const auto& worker) { return worker->is_alive(); })) {
    const auto responses = co_await send_to_all(call, "GET", "/metrics");
    for (const auto& each : responses)
      if (each.response.status == 200) texts.emplace_back(std::to_string(each.worker->number()), each.response.body);
  }
  co_return serve::HttpResponse{.body = own + merged_metrics(texts), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

MergedResponses::PendingResponse MergedResponses::capacity(const Call& call) {
  const auto responses = co_await send_to_all(call, "GET", call.request.path);
  Json sum = Json::object();
  for (const auto& each : responses)
    if (each.response.status == 200) add_numbers(sum, each.body);
  co_return serve::json_response(sum);
}

MergedResponses::PendingResponse MergedResponses::health(const Call& call) {
  const auto responses = co_await send_to_all(call, "GET", call.request.path);
  bool healthy = directory_.all_alive();
  Json models = Json::object();
  for (const auto& each : responses) {
    healthy = healthy && each.body.value("healthy", false);
    models.update(each.body.value("models", Json::object()));
  }
  for (const auto& name : unreachable_models())
    if (!models.contains(name.get<std::string>())) models[name.get<std::string>()] = {{"healthy", false}};
  co_return serve::json_response({{"healthy", healthy}, {"models", models}}, healthy ? 200 : 503);
}

}  // namespace hone::tinker

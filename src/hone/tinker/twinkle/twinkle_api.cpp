#include "hone/tinker/twinkle/twinkle_api.h"

#include <algorithm>

#include "hone/tinker/wire/forward_backward.h"
#include "hone/tinker/wire/json_dialect.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// A class whose work this server always does.
void require_class(const Json& body, const char* field, std::initializer_list<std::string_view> known) {
  const auto name = required_text(body, field);
  const auto last = std::string_view(name).substr(name.rfind('.') + 1);
  if (std::ranges::count(known, last) == 0)
    throw RequestError(fmt::format("{} {} is not supported by this server; expected {}", field, name, fmt::join(known, " or ")));
}

Json model_output(const Json& output, int64_t labels) {
  Json logps = Json::array();
  for (const auto& row : output["loss_fn_outputs"]) logps.push_back(row["logprobs"]["data"]);
  return result_json({{"loss", output["metrics"]["loss:sum"]}, {"logps", logps}, {"num_tokens", labels}, {"logits", nullptr}});
}

}  // namespace

Json result_json(Json value) {
  Json reply;
  reply["result"] = std::move(value);
  return reply;
}

void refuse_call(const std::string& verb, const char* instead) {
  throw RequestError(fmt::format("{} is not supported by this server: {}", verb, instead));
}

void TwinkleApi::require_model(const Call& call) const {
  if (call.parts.at(0) != services_.config.base_model)
    throw serve::ApiError(404,
                          fmt::format("the model is \"{}\"; this server has \"{}\"", call.parts[0], services_.config.base_model));
}

TwinkleApi::ActiveCall TwinkleApi::begin(serve::Exchange& exchange, const Call& call) {
  auto body = body_of(call);
  const auto run = fmt::format("{}:train:{}", call.request.header("x-twinkle-session-id"), adapter_name_in(body));
  if (!services_.store.run(run, call.tenant))
    throw not_found("adapter of this name in this session; add_adapter_to_model makes one");
  auto adapter = TwinkleAdapter::from_json(services_.store.settings(run));
  if (has_field(body, "gradient_accumulation_steps"))
    adapter.accumulation = integer_field(body, "gradient_accumulation_steps", 1, 1);
  return {exchange, call, std::move(body), run, std::move(adapter)};
}

void TwinkleApi::keep(const ActiveCall& active) { services_.store.set_settings(active.run, active.adapter.to_json()); }

asio::awaitable<std::string> TwinkleApi::perform(ActiveCall& active, const char* kind, std::string body, int64_t tokens) {
  const auto seq = co_await workers_.run([&] {
    ModelLoop::Announcement announcement(services_.loop);
    announcement.name_run(active.run);
    require_room(services_, active.call.tenant, tokens);
    const auto number =
        services_.store.append_request(active.run, {.kind = kind, .body = std::move(body), .result = {}, .content_type = {}});
    services_.loop.submit(active.run, number);
    return number;
  });
  while (true) {
    auto signal = services_.futures.watch(future_id(active.run, seq));
    auto request = co_await workers_.run([&] { return services_.store.result(active.run, active.call.tenant, seq); });
    if (request && request->done && !request->failed) co_return request->result;
    if (request && request->done) {
      const auto why = stored_json(request->result);
      throw serve::ApiError(text_field(why, "category", "") == "user" ? 400 : 500, text_field(why, "error", "it failed"));
    }
    if (active.exchange.gone()) throw serve::ApiError(499, "the client disconnected");
    co_await signal->wait_until(serve::Clock::now() + kLookAgain);
  }
}

asio::awaitable<Json> TwinkleApi::perform_json(ActiveCall& active, const char* kind, Json body) {
  const auto result = co_await perform(active, kind, body.dump());
  co_return stored_json(result);
}

asio::awaitable<Json> TwinkleApi::forward_only(ActiveCall& active) {
  if (text_field(active.body, "task", "causal_lm") != "causal_lm")
    refuse_call("forward_only of another task than causal_lm", "call forward_backward");
  int64_t labels = 0;
  const auto bytes = co_await workers_.run([&] {
    const auto loss =
        loss_input(training_rows(active.body.value("inputs", Json()), served_), {{"name", "CrossEntropyLoss"}}, active.body);
    labels = loss.labels;
    auto input = loss.input;
    if (flag_field(active.body, "disable_lora", false)) input["loss_fn_config"] = {{"disable_lora", 1}};
    return forward_backward_from_json({{"model_id", active.run}, {"seq_id", 1}, {"forward_input", input}}, true);
  });
  const auto done = co_await perform(active, "forward", bytes, read_address(bytes).tokens);
  const auto output = forward_backward_output_to_json(done);
  co_return model_output(output, labels);
}

asio::awaitable<Json> TwinkleApi::forward_backward(ActiveCall& active) {
  const bool compares = active.adapter.loss["name"] == "InfonceLoss";
  if (const auto task = text_field(active.body, "task", "causal_lm"); task != (compares ? "embedding" : "causal_lm"))
    throw RequestError(
        fmt::format("task is \"{}\"; expected \"embedding\" with InfonceLoss and \"causal_lm\" with others", task));
  auto loss = co_await workers_.run([&] {
    const auto inputs = active.body.value("inputs", Json());
    return compares ? contrastive_input(inputs, active.adapter.loss)
                    : loss_input(training_rows(inputs, served_), active.adapter.loss, active.body);
  });
  if (loss.needs_old_logps) {  // the policy's own: ratios are 1
    const auto known = co_await forward_only(active);
    for (size_t i = 0; i < loss.input["data"].size(); ++i)
      loss.input["data"][i]["loss_fn_inputs"]["logprobs"] = {{"data", known["result"]["logps"][i]}, {"dtype", "float32"}};
  }
  const auto bytes = co_await workers_.run([&] {
    return forward_backward_from_json({{"model_id", active.run}, {"seq_id", 1}, {"forward_backward_input", loss.input}}, false);
  });
  const auto done = co_await perform(active, "forward_backward", bytes, read_address(bytes).tokens);
  const auto output = forward_backward_output_to_json(done);
  const double sum = output["metrics"].value("loss:sum", 0.0);
  auto& adapter = active.adapter;
  ++adapter.backwards, ++adapter.calls, ++adapter.loss_calls;
  adapter.units += loss.units;
  adapter.loss_sum += sum / std::max(1.0, loss.units);
  adapter.add_pairs(output["metrics"], static_cast<double>(loss.input["data"].size()) / 2);
  adapter.add_similarities(output["metrics"]);
  co_return model_output(output, loss.labels);
}

// Only here does Twinkle divide gradients by the number of accumulated items.
asio::awaitable<Json> TwinkleApi::clip_grad_norm(ActiveCall& active) {
  auto& adapter = active.adapter;
  if (!adapter.is_step()) co_return result_json("None");
  if (integer_field(active.body, "norm_type", 2) != 2) throw RequestError("norm_type: expected 2");
  adapter.scale = 1 / std::max(1.0, adapter.units);
  adapter.max_norm = real_field(active.body, "max_grad_norm", 1.0, 0, 1e9);
  adapter.units = 0;
  Json request = {{"scale", adapter.scale}};
  const auto done = co_await perform_json(active, "grad_norm", std::move(request));
  adapter.grad_norm = done.value("grad_norm", 0.0);
  co_return result_json(fmt::format("{}", adapter.grad_norm));
}

asio::awaitable<Json> TwinkleApi::step(ActiveCall& active) {
  auto& adapter = active.adapter;
  if (!adapter.is_step()) co_return Json();
  if (adapter.optimizer.is_null()) throw RequestError("there is no optimizer: call set_optimizer first");
  Json adam = adapter.optimizer;
  adam["learning_rate"] = adapter.learning_rate();
  adam["grad_clip_norm"] = adapter.max_norm;
  adam["grad_scale"] = adapter.scale;
  Json request = {{"adam_params", adam}};
  co_await perform_json(active, "optim_step", std::move(request));
  adapter.scale = 1, adapter.max_norm = 0, adapter.calls = 0;
  co_return Json();
}

// The step has already cleared them.
asio::awaitable<Json> TwinkleApi::zero_grad(ActiveCall& active) {
  if (active.adapter.is_step() && active.adapter.calls > 0) {
    co_await perform_json(active, "zero_grad", Json::object());
    active.adapter.calls = 0;
  }
  co_return Json();
}

Json TwinkleApi::lr_step(ActiveCall& active) {
  if (active.adapter.is_step() && !active.adapter.schedule.is_null()) ++active.adapter.rate_steps;
  return {};
}

asio::awaitable<Json> TwinkleApi::clip_grad_and_step(ActiveCall& active) {
  co_await clip_grad_norm(active);
  co_await step(active);
  co_await zero_grad(active);
  co_return lr_step(active);
}

Json TwinkleApi::calculate_metric(ActiveCall& active) {
  auto& adapter = active.adapter;
  Json result = Json::object();
  if (flag_field(active.body, "is_training", true)) {
    const auto calls = static_cast<double>(std::max<int64_t>(1, adapter.loss_calls));
    result = {{"loss", fmt::format("{:.4f}", adapter.loss_sum / calls)}, {"iters", adapter.backwards / adapter.accumulation}};
    if (adapter.grad_norm > 0) result["grad_norm"] = fmt::format("{:.6f}", adapter.grad_norm);
    if (!adapter.optimizer.is_null()) result["learning rate"] = fmt::format("{:.6e}", adapter.learning_rate());
    adapter.loss_sum = adapter.grad_norm = 0;
    adapter.loss_calls = 0;
    result.update(adapter.take_pairs());
    result.update(adapter.take_similarities());
  }
  return result_json(std::move(result));
}

asio::awaitable<Json> TwinkleApi::dispatch(ActiveCall& active, const std::string& verb) {
  auto& adapter = active.adapter;
  const auto& body = active.body;
  if (verb == "forward_backward") co_return co_await forward_backward(active);
  if (verb == "forward_only") co_return co_await forward_only(active);
  if (verb == "clip_grad_norm") co_return co_await clip_grad_norm(active);
  if (verb == "step") co_return co_await step(active);
  if (verb == "zero_grad") co_return co_await zero_grad(active);
  if (verb == "lr_step") co_return lr_step(active);
  if (verb == "clip_grad_and_step") co_return co_await clip_grad_and_step(active);
  if (verb == "calculate_metric") co_return calculate_metric(active);
  if (verb == "save") co_return co_await save(active);
  if (verb == "load") co_return co_await load(active);
  if (verb == "resume_from_checkpoint") co_return co_await resume_from_checkpoint(active);
  if (verb == "get_train_configs") co_return result_json(adapter.to_json().dump(2));
  if (verb == "set_loss") set_loss(adapter, body);
  if (verb == "set_optimizer") set_optimizer(adapter, body);
  if (verb == "set_lr_scheduler") set_schedule(adapter, body);
  if (verb == "set_template") required_text(body, "template_cls");  // all of Twinkle's templates mean the model's own
  if (verb == "set_processor") require_class(body, "processor_cls", {"InputProcessor"});
  if (verb == "add_metric") require_class(body, "metric_cls", {"LossMetric", "TrainMetric", "DPOMetric", "EmbeddingMetric"});
  if (verb == "forward" || verb == "calculate_loss" || verb == "backward")
    refuse_call(verb, "call forward_backward, or forward_only");
  if (verb == "apply_patch" || verb == "get_state_dict") refuse_call(verb, "the model is not implemented in Python");
  if (!verb.starts_with("set_") && verb != "add_metric") throw not_found("call " + verb);
  co_return Json();
}

asio::awaitable<serve::HttpResponse> TwinkleApi::handle_model(serve::Exchange& exchange, const Call& call) {
  require_model(call);
  const auto verb = call.parts.at(1);
  Json reply = {{"status", "ok"}};
  if (verb == "upload_to_hub") {
    reply = co_await upload_to_hub(call);
  } else if (verb == "add_adapter_to_model") {
    reply = co_await workers_.run([&] { return add_adapter(call, body_of(call)); });
  } else if (verb != "create") {
    auto active = co_await workers_.run([&] { return std::make_unique<ActiveCall>(begin(exchange, call)); });
    reply = co_await dispatch(*active, verb);
    co_await workers_.run([&] {
      keep(*active);
      return true;
    });
  }
  co_return serve::json_response(reply);
}

asio::awaitable<serve::HttpResponse> TwinkleApi::handle_processor(const Call& call) {
  co_return co_await workers_.run([&] {
    const auto& verb = call.parts.at(0);
    if (verb != "create" && verb != "call") throw not_found("call " + verb);
    return serve::json_response(verb == "create" ? processors_.create(call.tenant, body_of(call))
                                                 : processors_.call(call.tenant, body_of(call)));
  });
}

}  // namespace hone::tinker

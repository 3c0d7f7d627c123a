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

TwinkleApi::Turn TwinkleApi::begin(serve::Exchange& exchange, const Call& call) {
  auto body = body_of(call);
  const auto run = fmt::format("{}:train:{}", call.request.header("x-twinkle-session-id"), adapter_name_in(body));
  if (!services_.store.run(run, call.tenant))
    throw not_found("adapter of this name in this session; add_adapter_to_model makes one");
  auto adapter = TwinkleAdapter::from_json(services_.store.settings(run));
  if (has_field(body, "gradient_accumulation_steps"))
    adapter.accumulation = integer_field(body, "gradient_accumulation_steps", 1, 1);
  return {exchange, call, std::move(body), run, std::move(adapter)};
}

void TwinkleApi::keep(const Turn& turn) { services_.store.set_settings(turn.run, turn.adapter.to_json()); }

asio::awaitable<std::string> TwinkleApi::perform(Turn& turn, const char* kind, std::string body, int64_t tokens) {
  const auto seq = co_await workers_.run([&] {
    ModelLoop::Announcement announcement(services_.loop);
    announcement.name_run(turn.run);
    require_room(services_, turn.call.tenant, tokens);
    const auto number =
        services_.store.append_request(turn.run, {.kind = kind, .body = std::move(body), .result = {}, .content_type = {}});
    services_.loop.submit(turn.run, number);
    return number;
  });
  while (true) {
    auto signal = services_.futures.watch(future_id(turn.run, seq));
    auto request = co_await workers_.run([&] { return services_.store.result(turn.run, turn.call.tenant, seq); });
    if (request && request->done && !request->failed) co_return request->result;
    if (request && request->done) {
      const auto why = stored_json(request->result);
      throw serve::ApiError(text_field(why, "category", "") == "user" ? 400 : 500, text_field(why, "error", "it failed"));
    }
    if (turn.exchange.gone()) throw serve::ApiError(499, "the client disconnected");
    co_await signal->wait_until(serve::Clock::now() + kLookAgain);
  }
}

asio::awaitable<Json> TwinkleApi::perform_json(Turn& turn, const char* kind, Json body) {
  const auto result = co_await perform(turn, kind, body.dump());
  co_return stored_json(result);
}

asio::awaitable<Json> TwinkleApi::forward_only(Turn& turn) {
  if (text_field(turn.body, "task", "causal_lm") != "causal_lm")
    refuse_call("forward_only of another task than causal_lm", "call forward_backward");
  int64_t labels = 0;
  const auto bytes = co_await workers_.run([&] {
    const auto loss =
        loss_input(training_rows(turn.body.value("inputs", Json()), served_), {{"name", "CrossEntropyLoss"}}, turn.body);
    labels = loss.labels;
    auto input = loss.input;
    if (flag_field(turn.body, "disable_lora", false)) input["loss_fn_config"] = {{"disable_lora", 1}};
    return forward_backward_from_json({{"model_id", turn.run}, {"seq_id", 1}, {"forward_input", input}}, true);
  });
  const auto done = co_await perform(turn, "forward", bytes, read_address(bytes).tokens);
  const auto output = forward_backward_output_to_json(done);
  co_return model_output(output, labels);
}

asio::awaitable<Json> TwinkleApi::forward_backward(Turn& turn) {
  const bool compares = turn.adapter.loss["name"] == "InfonceLoss";
  if (const auto task = text_field(turn.body, "task", "causal_lm"); task != (compares ? "embedding" : "causal_lm"))
    throw RequestError(
        fmt::format("task is \"{}\"; expected \"embedding\" with InfonceLoss and \"causal_lm\" with others", task));
  auto loss = co_await workers_.run([&] {
    const auto inputs = turn.body.value("inputs", Json());
    return compares ? contrastive_input(inputs, turn.adapter.loss)
                    : loss_input(training_rows(inputs, served_), turn.adapter.loss, turn.body);
  });
  if (loss.needs_old_logps) {  // the policy's own: ratios are 1
    const auto known = co_await forward_only(turn);
    for (size_t i = 0; i < loss.input["data"].size(); ++i)
      loss.input["data"][i]["loss_fn_inputs"]["logprobs"] = {{"data", known["result"]["logps"][i]}, {"dtype", "float32"}};
  }
  const auto bytes = co_await workers_.run([&] {
    return forward_backward_from_json({{"model_id", turn.run}, {"seq_id", 1}, {"forward_backward_input", loss.input}}, false);
  });
  const auto done = co_await perform(turn, "forward_backward", bytes, read_address(bytes).tokens);
  const auto output = forward_backward_output_to_json(done);
  const double sum = output["metrics"].value("loss:sum", 0.0);
  auto& adapter = turn.adapter;
  ++adapter.backwards, ++adapter.calls, ++adapter.loss_calls;
  adapter.units += loss.units;
  adapter.loss_sum += sum / std::max(1.0, loss.units);
  adapter.add_pairs(output["metrics"], static_cast<double>(loss.input["data"].size()) / 2);
  adapter.add_similarities(output["metrics"]);
  co_return model_output(output, loss.labels);
}

// Only here does Twinkle divide gradients by the number of accumulated items.
asio::awaitable<Json> TwinkleApi::clip_grad_norm(Turn& turn) {
  auto& adapter = turn.adapter;
  if (!adapter.is_step()) co_return result_json("None");
  if (integer_field(turn.body, "norm_type", 2) != 2) throw RequestError("norm_type: expected 2");
  adapter.scale = 1 / std::max(1.0, adapter.units);
  adapter.max_norm = real_field(turn.body, "max_grad_norm", 1.0, 0, 1e9);
  adapter.units = 0;
  Json request = {{"scale", adapter.scale}};
  const auto done = co_await perform_json(turn, "grad_norm", std::move(request));
  adapter.grad_norm = done.value("grad_norm", 0.0);
  co_return result_json(fmt::format("{}", adapter.grad_norm));
}

asio::awaitable<Json> TwinkleApi::step(Turn& turn) {
  auto& adapter = turn.adapter;
  if (!adapter.is_step()) co_return Json();
  if (adapter.optimizer.is_null()) throw RequestError("there is no optimizer: call set_optimizer first");
  Json adam = adapter.optimizer;
  adam["learning_rate"] = adapter.learning_rate();
  adam["grad_clip_norm"] = adapter.max_norm;
  adam["grad_scale"] = adapter.scale;
  Json request = {{"adam_params", adam}};
  co_await perform_json(turn, "optim_step", std::move(request));
  adapter.scale = 1, adapter.max_norm = 0, adapter.calls = 0;
  co_return Json();
}

// The step has already cleared them.
asio::awaitable<Json> TwinkleApi::zero_grad(Turn& turn) {
  if (turn.adapter.is_step() && turn.adapter.calls > 0) {
    co_await perform_json(turn, "zero_grad", Json::object());
    turn.adapter.calls = 0;
  }
  co_return Json();
}

Json TwinkleApi::lr_step(Turn& turn) {
  if (turn.adapter.is_step() && !turn.adapter.schedule.is_null()) ++turn.adapter.rate_steps;
  return {};
}

asio::awaitable<Json> TwinkleApi::clip_grad_and_step(Turn& turn) {
  co_await clip_grad_norm(turn);
  co_await step(turn);
  co_await zero_grad(turn);
  co_return lr_step(turn);
}

Json TwinkleApi::calculate_metric(Turn& turn) {
  auto& adapter = turn.adapter;
  Json result = Json::object();
  if (flag_field(turn.body, "is_training", true)) {
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

asio::awaitable<Json> TwinkleApi::answered(Turn& turn, const std::string& verb) {
  auto& adapter = turn.adapter;
  const auto& body = turn.body;
  if (verb == "forward_backward") co_return co_await forward_backward(turn);
  if (verb == "forward_only") co_return co_await forward_only(turn);
  if (verb == "clip_grad_norm") co_return co_await clip_grad_norm(turn);
  if (verb == "step") co_return co_await step(turn);
  if (verb == "zero_grad") co_return co_await zero_grad(turn);
  if (verb == "lr_step") co_return lr_step(turn);
  if (verb == "clip_grad_and_step") co_return co_await clip_grad_and_step(turn);
  if (verb == "calculate_metric") co_return calculate_metric(turn);
  if (verb == "save") co_return co_await save(turn);
  if (verb == "load") co_return co_await load(turn);
  if (verb == "resume_from_checkpoint") co_return co_await resume_from_checkpoint(turn);
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

asio::awaitable<serve::HttpResponse> TwinkleApi::answer_model(serve::Exchange& exchange, const Call& call) {
  require_model(call);
  const auto verb = call.parts.at(1);
  Json reply = {{"status", "ok"}};
  if (verb == "upload_to_hub") {
    reply = co_await upload_to_hub(call);
  } else if (verb == "add_adapter_to_model") {
    reply = co_await workers_.run([&] { return add_adapter(call, body_of(call)); });
  } else if (verb != "create") {
    auto turn = co_await workers_.run([&] { return std::make_unique<Turn>(begin(exchange, call)); });
    reply = co_await answered(*turn, verb);
    co_await workers_.run([&] {
      keep(*turn);
      return true;
    });
  }
  co_return serve::json_response(reply);
}

asio::awaitable<serve::HttpResponse> TwinkleApi::answer_processor(const Call& call) {
  co_return co_await workers_.run([&] {
    const auto& verb = call.parts.at(0);
    if (verb != "create" && verb != "call") throw not_found("call " + verb);
    return serve::json_response(verb == "create" ? processors_.create(call.tenant, body_of(call))
                                                 : processors_.call(call.tenant, body_of(call)));
  });
}

}  // namespace hone::tinker

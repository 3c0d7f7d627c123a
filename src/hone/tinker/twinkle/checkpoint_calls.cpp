// save, load and resume_from_checkpoint, and the addresses of checkpoints.
#include <ctime>

#include "hone/tinker/state/columns.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr std::string_view kTwinkle = "twinkle://", kTinker = "tinker://";

std::string name_of_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
  return text;
}

}  // namespace

std::string tinker_path(const std::string& path) {
  return path.starts_with(kTwinkle) ? std::string(kTinker) + path.substr(kTwinkle.size()) : path;
}

std::string twinkle_path(const std::string& path) {
  return path.starts_with(kTinker) ? std::string(kTwinkle) + path.substr(kTinker.size()) : path;
}

asio::awaitable<Json> TwinkleApi::save(ActiveCall& active) {
  const bool is_sampler = flag_field(active.body, "is_sampler", false);
  const auto& adapter = active.adapter;
  Json progress = {{"cur_step", adapter.backwards},
                   {"gradient_accumulation_steps", adapter.accumulation},
                   {"consumed_train_samples", integer_field(active.body, "consumed_train_samples", 0, 0)},
                   {"rate_steps", adapter.rate_steps}};
  Json request = {{"path", text_field(active.body, "name", name_of_now())}, {"overwrite", true}, {"user_metadata", progress}};
  const char* kind = is_sampler ? "save_weights_for_sampler" : "save_weights";
  const auto done = co_await perform_json(active, kind, std::move(request));
  Json reply = {{"twinkle_path", twinkle_path(text_field(done, "path", ""))}, {"checkpoint_dir", nullptr}};
  co_return reply;
}

asio::awaitable<Json> TwinkleApi::load(ActiveCall& active) {
  Json request = {{"path", tinker_path(required_text(active.body, "name"))},
                  {"optimizer", flag_field(active.body, "load_optimizer", false)}};
  co_await perform_json(active, "load_weights", std::move(request));
  active.adapter.calls = 0;
  active.adapter.units = 0;
  co_return Json();
}

asio::awaitable<Json> TwinkleApi::resume_from_checkpoint(ActiveCall& active) {
  const auto path = tinker_path(required_text(active.body, "name"));
  const auto checkpoint = co_await workers_.run([&] { return services_.store.checkpoint(path, active.call.tenant); });
  if (!checkpoint) throw not_found("checkpoint " + path);
  active.body["load_optimizer"] = !flag_field(active.body, "resume_only_model", false);
  co_await load(active);
  const auto& progress = checkpoint->user_metadata;
  if (active.body["load_optimizer"] == true) {
    active.adapter.backwards = integer_field(progress, "cur_step", 0, 0);
    active.adapter.accumulation = integer_field(progress, "gradient_accumulation_steps", 1, 1);
    active.adapter.rate_steps = integer_field(progress, "rate_steps", 0, 0);
  }
  Json result = {{"cur_step", active.adapter.backwards},
                 {"gradient_accumulation_steps", active.adapter.accumulation},
                 {"consumed_train_samples", integer_field(progress, "consumed_train_samples", 0, 0)}};
  co_return result_json(std::move(result));
}

}  // namespace hone::tinker

// Runs and their checkpoints: lists, download, publishing, expiry.
#include <ctime>

#include "hone/base/log.h"
#include "hone/base/out_of_space.h"
#include "hone/tinker/api/call.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr double kUnnamedSeconds = 7 * 86400;  // how long unnamed weights are kept at most, also those of an active session

std::string iso_time(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json checkpoint_json(const Checkpoint& checkpoint) {
  return {{"checkpoint_id", checkpoint.id()},
          {"checkpoint_type", checkpoint.kind == "weights" ? "training" : "sampler"},
          {"time", iso_time(checkpoint.created)},
          {"tinker_path", checkpoint.path()},
          {"twinkle_path", twinkle_path(checkpoint.path())},
          {"size_bytes", checkpoint.bytes},
          {"public", checkpoint.is_public},
          {"user_metadata", checkpoint.user_metadata},
          {"expires_at", checkpoint.expires ? Json(iso_time(*checkpoint.expires)) : Json()}};
}

Json run_json(Services& services, const Run& run) {
  Json training, sampler;
  for (const auto& checkpoint : services.store.checkpoints(run.owner, run.id, {1000, 0})) {
    auto& newest = checkpoint.kind == "weights" ? training : sampler;
    if (newest.is_null()) newest = checkpoint_json(checkpoint);
  }
  return {{"training_run_id", run.id},
          {"base_model", services.config.base_model},
          {"model_owner", run.owner},
          {"is_lora", true},
          {"corrupted", false},
          {"lora_rank", run.config.rank},
          {"last_request_time", iso_time(run.used)},
          {"last_checkpoint", training},
          {"last_sampler_checkpoint", sampler},
          {"user_metadata", run.user_metadata}};
}

Json cursor_json(Page page, int64_t count) { return {{"offset", page.offset}, {"limit", page.limit}, {"total_count", count}}; }

Json checkpoint_list(Services& services, const Call& call, const std::string& run, Page page) {
  Json list = Json::array();
  for (const auto& checkpoint : services.store.checkpoints(call.tenant, run, page)) list.push_back(checkpoint_json(checkpoint));
  return {{"checkpoints", list}, {"cursor", cursor_json(page, services.store.count_checkpoints(call.tenant, run))}};
}

std::string path_in(const Call& call) {
  return fmt::format("tinker://{}/{}/{}", call.parts.at(0), call.parts.at(1), call.parts.at(2));
}

// Only the owner may change it, public or not.
Checkpoint own_checkpoint(Services& services, const Call& call) {
  auto found = services.store.checkpoint(path_in(call), call.tenant);
  if (!found || found->owner != call.tenant) throw not_found("checkpoint " + path_in(call));
  return *found;
}

// On a full disk the files go first, and make room for writing that they are gone.
void remove_with_files(Store& store, const Checkpoint& checkpoint) {
  try {
    store.remove_checkpoint(checkpoint);
    remove_saved(checkpoint.folder);
  } catch (const std::exception& problem) {
    if (!is_out_of_space(problem)) throw;
    remove_saved(checkpoint.folder);
    store.remove_checkpoint(checkpoint);
  }
}

}  // namespace

serve::HttpResponse weights_info(Services& services, const Call& call) {
  const auto body = body_of(call);
  const auto path = tinker_path(required_text(body, has_field(body, "twinkle_path") ? "twinkle_path" : "tinker_path"));
  auto checkpoint = services.store.checkpoint(path, call.tenant);
  if (!checkpoint) throw not_found("checkpoint " + path);
  return serve::json_response({{"training_run_id", checkpoint->run},
                               {"model_owner", checkpoint->owner},
                               {"base_model", services.config.base_model},
                               {"is_lora", true},
                               {"lora_rank", checkpoint->config.rank},
                               {"train_unembed", checkpoint->config.train_unembed},
                               {"train_mlp", checkpoint->config.train_mlp},
                               {"train_attn", checkpoint->config.train_attn}});
}

serve::HttpResponse list_runs(Services& services, const Call& call) {
  const auto page = page_of(call, 20);
  Json list = Json::array();
  for (const auto& run : services.store.runs(call.tenant, page)) list.push_back(run_json(services, run));
  return serve::json_response({{"training_runs", list}, {"cursor", cursor_json(page, services.store.count_runs(call.tenant))}});
}

serve::HttpResponse get_run(Services& services, const Call& call) {
  auto run = services.store.run(call.parts.at(0), call.tenant);
  if (!run) throw not_found("training run " + call.parts[0]);
  return serve::json_response(run_json(services, *run));
}

serve::HttpResponse run_checkpoints(Services& services, const Call& call) {
  auto run = services.store.run(call.parts.at(0), call.tenant);
  if (!run) throw not_found("training run " + call.parts[0]);
  return serve::json_response(checkpoint_list(services, call, run->id, page_of(call, 1000)));
}

serve::HttpResponse all_checkpoints(Services& services, const Call& call) {
  return serve::json_response(checkpoint_list(services, call, "", page_of(call, 100)));
}

serve::HttpResponse delete_checkpoint(Services& services, const Call& call) {
  const auto checkpoint = own_checkpoint(services, call);
  remove_with_files(services.store, checkpoint);
  return serve::json_response({{"success", true}, {"message", checkpoint.id() + " is deleted"}});
}

serve::HttpResponse archive_address(Services& services, const Call& call) {
  auto checkpoint = services.store.checkpoint(path_in(call), call.tenant);
  if (!checkpoint) throw not_found("checkpoint " + path_in(call));
  auto address = fmt::format("{}://{}/api/v1/archives/{}", services.config.is_tls ? "https" : "http", call.request.header("host"),
                             services.archives.add(checkpoint->folder));
  auto response = serve::json_response({{"url", address}}, 302);
  response.headers.emplace_back("Location", address);
  return response;
}

std::unique_ptr<TarReader> open_archive(Services& services, const Call& call) {
  auto folder = services.archives.folder_of(call.parts.at(0));
  if (!folder || !std::filesystem::exists(*folder)) throw not_found("archive of this address any more");
  const std::vector<std::string> names{"adapter_config.json", "adapter_model.safetensors"};
  return std::make_unique<TarReader>(*folder, names);
}

serve::HttpResponse publish(Services& services, const Call& call) {
  services.store.set_public(own_checkpoint(services, call), true);
  return no_content();
}

serve::HttpResponse unpublish(Services& services, const Call& call) {
  services.store.set_public(own_checkpoint(services, call), false);
  return no_content();
}

serve::HttpResponse set_ttl(Services& services, const Call& call) {
  const auto body = body_of(call);
  const auto checkpoint = own_checkpoint(services, call);
  std::optional<double> expires;
  if (has_field(body, "ttl_seconds")) expires = unix_seconds() + ttl_seconds(body);
  services.store.set_expiry(checkpoint, expires);
  return no_content();
}

void remove_unnamed_folders(const std::filesystem::path& root, Store& store) {
  std::set<std::filesystem::path> named;
  for (const auto& folder : store.folders()) named.insert(std::filesystem::path(folder).parent_path());
  std::error_code ignored;
  for (const char* where : {"runs", "checkpoints", "samplers"})
    for (const auto& entry : std::filesystem::directory_iterator(root / where, ignored))
      if (!named.contains(entry.path())) std::filesystem::remove_all(entry.path(), ignored);
}

void remove_expired(Store& store) {
  for (const auto& folder : store.drop_samplers_older_than(kUnnamedSeconds)) remove_saved(folder);
  for (const auto& checkpoint : store.expired_checkpoints()) {
    log::info("{} has expired and is removed", checkpoint.path());
    remove_with_files(store, checkpoint);
  }
}

}  // namespace hone::tinker

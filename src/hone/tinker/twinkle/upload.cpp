// Twinkle's upload_to_hub: a saved adapter goes to a repository of the client, with the client's own token.
#include "hone/hub/upload.h"
#include "hone/tinker/twinkle/twinkle_api.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr int kMostUploads = 16;  // of all tenants, waiting ones included

// "hf://owner/name" and "ms://owner/name" name their hub.
hub::Repo repo_in(const Json& body) {
  auto id = required_text(body, "hub_model_id");
  auto site = hub::config().site;
  for (const auto& [scheme, named] : {std::pair("hf://", hub::Site::hugging_face), std::pair("ms://", hub::Site::modelscope)}) {
    if (!id.starts_with(scheme)) continue;
    id = id.substr(std::string_view(scheme).size());
    site = named;
  }
  if (!hub::is_repo_id(id)) throw RequestError(fmt::format("hub_model_id is \"{}\"; expected owner/name", id));
  return {.site = site, .kind = hub::Kind::model, .id = id, .revision = {}};
}

std::string uploaded(const hub::UploadRequest& request) try { return hub::upload(request); } catch (const UserError& problem) {
  throw serve::ApiError(400, fmt::format("the upload failed: {}", problem.what()), "hub_model_id");
}

}  // namespace

asio::awaitable<Json> TwinkleApi::upload_to_hub(const Call& call) {
  auto request = co_await workers_.run([&] {
    const auto body = body_of(call);
    const auto path = required_text(body, "checkpoint_dir");
    const auto checkpoint = services_.store.checkpoint(path, call.tenant);
    if (!checkpoint) throw not_found("checkpoint " + path);
    hub::UploadRequest made{.repo = repo_in(body),
                            .folder = checkpoint->folder,
                            .files = {"adapter_config.json", "adapter_model.safetensors"},
                            .path_in_repo = {},
                            .message = fmt::format("Upload {}", checkpoint->id()),
                            .token = text_field(body, "hub_token", "")};
    if (made.token.empty()) throw RequestError("hub_token is missing: this server does not upload with its own token");
    return made;
  });
  if (uploading_ >= kMostUploads) {
    serve::ApiError full(429, "too many uploads are waiting; try again", "", "too_many_requests");
    full.retry_after = 10;
    throw full;
  }
  ++uploading_;
  const std::shared_ptr<void> leaves(nullptr, [this](void*) { --uploading_; });
  const auto url = co_await uploads_.run([&] { return uploaded(request); });
  co_return Json{{"request_id", nullptr}, {"url", url}};
}

}  // namespace hone::tinker

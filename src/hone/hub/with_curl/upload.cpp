#include "hone/hub/upload.h"

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/hub/with_curl/hub_api.h"

namespace hone::hub {
namespace {

UserError explained_upload(const HttpFailure& failure, const Access& access, const std::string& id) {
  auto site = site_name(access.site);
  auto variable = access.site == Site::hugging_face ? "HF_TOKEN" : "MODELSCOPE_API_TOKEN";
  if (failure.status == 401 || failure.status == 403)
    return {ExitCode::usage, fmt::format("{}: {} does not let this token write there ({})", id, site, failure.status),
            fmt::format("{} or `hub_token` must be a token that may write, of an owner of {}", variable, id)};
  if (failure.unreachable)
    return {ExitCode::failure, fmt::format("{}: {} cannot be reached ({})", id, access.endpoint, failure.what()),
            "the files are where they were written; send them later"};
  return {ExitCode::failure, fmt::format("{}: {}", id, failure.what()), "the files are where they were written; send them later"};
}

std::vector<UploadFile> described(const UploadRequest& request) {
  std::vector<UploadFile> files;
  for (const auto& file : request.files) {
    auto path = request.folder / file;
    auto name = request.path_in_repo.empty() ? file.generic_string() : request.path_in_repo + "/" + file.generic_string();
    files.push_back({path, name, fs::file_size(path), sha256_of(path), false});
  }
  return files;
}

}  // namespace

static void require_upload(Site site, const std::string& token) {
  auto variable = site == Site::hugging_face ? "HF_TOKEN" : "MODELSCOPE_API_TOKEN";
  if (offline())
    throw UserError(ExitCode::usage, "an upload is requested, but HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids connections",
                    "unset it, or leave `push_to_hub` out");
  if (token.empty())
    throw UserError(ExitCode::usage, fmt::format("uploading to {} needs a token", site_name(site)),
                    fmt::format("set {} or pass `hub_token`", variable));
}

void require_upload(Site site) { require_upload(site, access_to(site).token); }

std::string qualified_repo_id(Site site, const std::string& name) {
  if (name.find('/') != name.npos) return name;
  auto access = access_to(site);
  try {
    return make_hub_api(access)->owner() + "/" + name;
  } catch (const HttpFailure& failure) {
    throw explained_upload(failure, access, name);
  }
}

std::string upload(const UploadRequest& request) {
  auto access = access_to(request.repo.site);
  if (!request.token.empty()) access.token = request.token;
  require_upload(request.repo.site, access.token);
  if (!is_repo_id(request.repo.id))
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not an id of a repository", request.repo.id), "expected owner/name");
  try {
    auto api = make_hub_api(access);
    auto files = described(request);
    api->create(request.repo, request.private_repo);
    api->choose_modes(request.repo, files);
    for (const auto& file : files)
      if (file.large) api->send(request.repo, file);
    return api->commit(request.repo, files, request.message);
  } catch (const HttpFailure& failure) {
    throw explained_upload(failure, access, request.repo.id);
  }
}

}  // namespace hone::hub

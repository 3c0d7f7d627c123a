#include "hone/hub/with_curl/remote.h"

#include <set>

#include "hone/base/log.h"

namespace hone::hub {
namespace {

constexpr size_t kLargestListing = 64 << 20;
constexpr int kMostPages = 10'000;

// Two entries with the same name would overwrite each other.
void check_names(const Listing& listing, const std::string& id) {
  std::set<std::string_view> names;
  for (const auto& file : listing.files)
    if (!names.insert(file.path).second)
      throw UserError(ExitCode::bad_data, fmt::format("{}: the hub lists \"{}\" twice", id, file.path));
}

const char* other_choice(Site site) { return site == Site::modelscope ? "`use_hf` true" : "`use_hf` false"; }
const char* token_variable(Site site) { return site == Site::hugging_face ? "HF_TOKEN" : "MODELSCOPE_API_TOKEN"; }

}  // namespace

HttpRequest Remote::request(const std::string& url) const {
  HttpRequest request{.url = url, .headers = {}, .secrets = {}, .read_timeout = access_.read_timeout};
  if (access_.token.empty()) return request;
  if (access_.token.find_first_of("\r\n") != access_.token.npos)
    throw UserError(ExitCode::usage, fmt::format("the token for {} holds a line break", site_name(access_.site)),
                    fmt::format("check {}", token_variable(access_.site)));
  request.secrets.push_back("Authorization: Bearer " + access_.token);
  if (access_.site == Site::modelscope) request.secrets.push_back("Cookie: m_session_id=" + access_.token);
  return request;
}

HttpRequest Remote::request_for(const std::string& path, const std::string& commit) const {
  return request(file_url(access_, repo_, commit, path));
}

HttpReply Remote::ask(Http& http, const std::string& url) const {
  HttpReply reply;
  with_retries(repo_.id, [&] { reply = http.get(request(url), kLargestListing); });
  return reply;
}

Listing Remote::list_hugging_face(Http& http) const {
  auto commit = read_commit(ask(http, revision_url(access_, repo_)).body).or_throw(ExitCode::failure, repo_.id);
  Listing listing{commit, {}};
  const auto first = tree_address(access_, repo_, commit);
  auto url = first;
  for (int page = 0; page < kMostPages; ++page) {
    auto reply = ask(http, url);
    auto files = read_tree(reply.body).or_throw(ExitCode::failure, repo_.id);
    listing.files.insert(listing.files.end(), std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()));
    auto next = next_page(reply.header("link"));
    if (next.find('?') == next.npos) break;
    // A mirror puts the original hub's address here: only the cursor is used, so that the token stays with its host.
    url = first.substr(0, first.find('?')) + next.substr(next.find('?'));
  }
  return listing;
}

Listing Remote::list_modelscope(Http& http) const {
  Listing listing;
  for (int page = 1; page < kMostPages; ++page) {
    auto found = read_files(ask(http, files_address(access_, repo_, page)).body).or_throw(ExitCode::failure, repo_.id);
    listing.files.insert(listing.files.end(), std::make_move_iterator(found.files.begin()),
                         std::make_move_iterator(found.files.end()));
    if (repo_.kind == Kind::model && found.entries >= kMostModelFiles)
      log::warning("{}: ModelScope lists at most {} files of a model; the others are not fetched", repo_.id, kMostModelFiles);
    if (repo_.kind == Kind::model || found.entries < kDatasetPage) break;
  }
  return listing;
}

Listing Remote::list() const {
  Http http;
  try {
    auto listing = access_.site == Site::hugging_face ? list_hugging_face(http) : list_modelscope(http);
    check_names(listing, repo_.id);
    return listing;
  } catch (const HttpFailure& failure) {
    throw explained(failure);
  }
}

UserError Remote::explained(const HttpFailure& failure) const {
  auto site = site_name(access_.site);
  auto variable = token_variable(access_.site);
  auto kind = repo_.kind == Kind::model ? "model" : "dataset";
  auto page = repo_url(access_, repo_);
  bool denied = failure.status == 401 || failure.status == 403;
  if (failure.reason == "GatedRepo")
    return {ExitCode::usage, fmt::format("{}: {} grants access only to users who accepted its terms", repo_.id, site),
            fmt::format("accept them at {}, then set {} or pass `hub_token`", page, variable)};
  if (failure.reason == "RevisionNotFound" || (failure.status == 404 && !repo_.revision.empty()))
    return {ExitCode::usage, fmt::format("{}: {} has no revision \"{}\" of it", repo_.id, site, repo_.branch()),
            fmt::format("{} lists branches and tags", page)};
  if (denied && !access_.token.empty())
    return {ExitCode::usage, fmt::format("{}: {} does not accept the token ({})", repo_.id, site, failure.status),
            fmt::format("check {} or `hub_token`, and that its owner may read {}", variable, page)};
  if (denied || failure.status == 404)
    return {ExitCode::usage, fmt::format("{}: {} has no such {}, or keeps it private", repo_.id, site, kind),
            fmt::format("check the id; {} looks on {}; for a private one set {}", other_choice(access_.site),
                        site_name(other_site(access_.site)), variable)};
  if (failure.unreachable)
    return {
        ExitCode::failure,
        fmt::format("{}: not in the caches {} or {}, and {} cannot be reached ({})", repo_.id,
                    cache_of(Site::modelscope).string(), cache_of(Site::hugging_face).string(), access_.endpoint, failure.what()),
        fmt::format("put it there or pass a folder; {} asks {} instead; {} names another address, https_proxy a proxy",
                    other_choice(access_.site), site_name(other_site(access_.site)),
                    access_.site == Site::modelscope ? "MODELSCOPE_ENDPOINT" : "HF_ENDPOINT")};
  return {ExitCode::failure, fmt::format("{}: {}", repo_.id, failure.what()),
          fmt::format("run the same command again: it resumes the download; {} asks {} instead", other_choice(access_.site),
                      site_name(other_site(access_.site)))};
}

}  // namespace hone::hub

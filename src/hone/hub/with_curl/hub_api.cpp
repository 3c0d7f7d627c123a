#include "hone/hub/with_curl/hub_api.h"

namespace hone::hub {
namespace {

constexpr size_t kLargestResponse = 64 << 20;

}  // namespace

HttpRequest HubApi::authorized(const std::string& method, const std::string& url) const {
  HttpRequest request{.url = url, .headers = {}, .secrets = {}, .read_timeout = access_.read_timeout, .method = method};
  request.secrets.push_back("Authorization: Bearer " + access_.token);
  if (access_.site == Site::modelscope) request.secrets.push_back("Cookie: m_session_id=" + access_.token);
  return request;
}

Json HubApi::ask(HttpRequest request) {
  HttpReply reply;
  with_retries(request.url, [&] { reply = http_.get(request, kLargestResponse); });
  auto json = parse_json(reply.body);
  if (!json) throw HttpFailure(fmt::format("the response of {} is not JSON", request.url));
  return std::move(*json);
}

Json HubApi::ask(const std::string& method, const std::string& url, const Json& body) {
  auto request = authorized(method, url);
  if (!body.is_null()) {
    request.headers.push_back("Content-Type: application/json");
    request.body = body.dump();
  }
  return ask(std::move(request));
}

HttpReply HubApi::put(const std::string& url, const UploadFile& file, uintmax_t begin, uintmax_t length,
                      std::vector<std::string> headers) {
  HttpRequest request{
      .url = url, .headers = std::move(headers), .secrets = {}, .read_timeout = access_.read_timeout, .method = "PUT"};
  request.body_file = file.path;
  request.body_begin = begin;
  request.body_length = length;
  HttpReply reply;
  with_retries(file.name, [&] { reply = http_.get(request, kLargestResponse); });
  return reply;
}

std::unique_ptr<HubApi> make_hub_api(const Access& access) {
  return access.site == Site::hugging_face ? make_hugging_face_api(access) : make_modelscope_api(access);
}

}  // namespace hone::hub

#include "hone/serve/page/page.h"

#include "hone/base/error.h"

namespace hone::serve {
namespace {

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return name.ends_with(".svg") ? "image/svg+xml" : "application/octet-stream";
}

// Only hone's own files are executed or shown, whatever a model generates.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string attribute_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

// translations.js reads this from the first element: the content security policy forbids inline scripts.
std::string with_look(std::string_view html, const PageConfig& look) {
  constexpr std::string_view kElement = "<html lang=\"en\"";
  auto at = html.find(kElement);
  HONE_CHECK(at != html.npos, "index.html begins otherwise than translations.js expects");
  at += kElement.size();
  std::string page(html.substr(0, at));
  if (!look.language.empty()) page += fmt::format(" data-language=\"{}\"", look.language);
  if (!look.media.empty()) page += fmt::format(" data-media=\"{}\"", look.media);
  if (!look.title.empty()) page += fmt::format(" data-title=\"{}\"", attribute_text(look.title));
  return page.append(html.substr(at));
}

}  // namespace

HttpResponse page_response(std::string_view name, std::string content) {
  HttpResponse response{.body = std::move(content), .content_type = std::string(type_of(name))};
  response.headers = {{"Content-Security-Policy", kPolicy}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-cache"}};
  return response;
}

HttpResponse page_file(std::string_view path, const PageConfig& look) {
  auto name = path == "/" ? std::string_view("index.html") : path.substr(std::string_view("/page/").size());
  for (const auto& file : page_files()) {
    if (file.name != name) continue;
    return page_response(name, name == "index.html" ? with_look(file.content, look) : std::string(file.content));
  }
  throw ApiError(404, "the page has no such file", "", "not_found");
}

asio::awaitable<void> page(Exchange& exchange, Context& context) {
  co_await exchange.respond(page_file(exchange.request().path, context.served.look));
}

}  // namespace hone::serve

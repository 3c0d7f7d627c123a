#include "hone/serve/page/page.h"

namespace hone::serve {
namespace {

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return name.ends_with(".svg") ? "image/svg+xml" : "application/octet-stream";
}

// Nothing but our own files runs or is shown, whatever a model writes.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace

asio::awaitable<void> page(Exchange& exchange, Context&) {
  std::string_view path = exchange.request().path;
  auto name = path == "/" ? std::string_view("index.html") : path.substr(std::string_view("/page/").size());
  for (const auto& file : page_files()) {
    if (file.name != name) continue;
    HttpResponse response{.body = std::string(file.content), .content_type = std::string(type_of(name))};
    response.headers = {{"Content-Security-Policy", kPolicy}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-cache"}};
    co_await exchange.respond(std::move(response));
    co_return;
  }
  throw Problem(404, "the page has no such file", "", "not_found");
}

}  // namespace hone::serve

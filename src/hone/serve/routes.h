// All routes of the server: path, method, access.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "hone/serve/context.h"

namespace hone::serve {

enum class Audience { everyone, key_holders };
using Handler = asio::awaitable<void> (*)(Exchange&, Context&);

struct Route {
  std::string_view method;
  std::string_view path;  // a last '*' matches any rest
  Audience audience;
  Handler handler;  // null: the server itself responds (health)
};

std::span<const Route> all_routes();
const Route* find_route(std::string_view method, std::string_view path);
// The methods of the path for an Allow header; "" for an unknown path.
std::string methods_of(std::string_view path);

}  // namespace hone::serve

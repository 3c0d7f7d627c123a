// A request's header as handlers see it, checks required by HTTP, and the request id.
#pragma once
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <optional>

#include "hone/serve/http/api_error.h"

namespace hone::serve {

HttpRequest read_head(const boost::beast::http::request_header<boost::beast::http::fields>& parsed, bool keep_alive);
// ApiError 400 or 415, on every route.
std::optional<ApiError> fault_in(const HttpRequest& head);

std::string fresh_id(std::string_view prefix);  // "chatcmpl-…", not to be guessed
bool is_fresh_id(std::string_view id);          // of that form, with no prefix
// The client's own X-Request-Id if it is a plain word, else a new one.
std::string request_id(const HttpRequest& head);

}  // namespace hone::serve

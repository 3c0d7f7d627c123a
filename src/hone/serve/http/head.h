// A request's head as handlers see it, what HTTP forbids about it, and the name the request goes by.
#pragma once
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <optional>

#include "hone/serve/http/api_error.h"

namespace hone::serve {

HttpRequest read_head(const boost::beast::http::request_header<boost::beast::http::fields>& parsed, bool keep_alive);
// Problem 400 or 415, for everybody.
std::optional<ApiError> fault_in(const HttpRequest& head);

std::string fresh_id(std::string_view prefix);  // "chatcmpl-…", not to be guessed
bool is_fresh_id(std::string_view id);          // of that form, with no prefix
// The client's own X-Request-Id when it is a plain word, else a fresh one.
std::string request_id(const HttpRequest& head);

}  // namespace hone::serve

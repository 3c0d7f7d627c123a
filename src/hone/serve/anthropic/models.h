// GET /v1/models for Anthropic's clients, which share the path with OpenAI's.
#pragma once
#include "hone/base/json.h"
#include "hone/serve/http/message.h"

namespace hone::serve {

// Its clients send the protocol version in every request.
bool asks_as_anthropic(const HttpRequest& request);
// From the entries of OpenAI's list.
Json anthropic_model(const Json& model);
Json anthropic_models(const Json& list);

}  // namespace hone::serve

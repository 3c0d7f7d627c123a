// The JSON that SDKs before 0.25 use instead of protobuf. The server has one internal form: JSON is converted on input, and on
// output for clients that do not accept protobuf.
#pragma once
#include <string>
#include <string_view>

#include "hone/base/json.h"

namespace hone::tinker {

// {forward_backward_input or forward_input, model_id, seq_id} as a ForwardBackwardRequest. Throws RequestError naming the field.
std::string forward_backward_from_json(const Json& body, bool forward_only);

// For messages that this server wrote.
Json forward_backward_output_to_json(std::string_view bytes);
Json sample_response_to_json(std::string_view bytes);

}  // namespace hone::tinker

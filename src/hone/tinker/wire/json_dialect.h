// What SDKs before 0.25 send and expect instead of protobuf. The server keeps one form: JSON is turned into it at the door, and
// back for who does not accept it.
#pragma once
#include <string>
#include <string_view>

#include "hone/base/json.h"

namespace hone::tinker {

// {forward_backward_input or forward_input, model_id, seq_id} as a ForwardBackwardRequest. Throws RequestError naming the field.
std::string forward_backward_from_json(const Json& body, bool forward_only);

// Of messages that this server wrote.
Json forward_backward_output_to_json(std::string_view bytes);
Json sample_response_to_json(std::string_view bytes);

}  // namespace hone::tinker

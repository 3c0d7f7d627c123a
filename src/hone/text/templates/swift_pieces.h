// Pieces that several of ms-swift's templates are made of.
#pragma once
#include "hone/text/templates/tables.h"

namespace hone::text::swift_pieces {

inline const Pieces kChatmlUser = {"<|im_start|>user\n{{QUERY}}<|im_end|>\n<|im_start|>assistant\n"};
inline const Pieces kChatmlEnd = {"<|im_end|>\n"};
inline const Pieces kChatmlSystem = {"<|im_start|>system\n{{SYSTEM}}<|im_end|>\n"};
inline const Pieces kLlama3User = {"<|start_header_id|>user<|end_header_id|>\n\n{{QUERY}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const Pieces kLlama3End = {"<|eot_id|>"};
inline const Pieces kLlama3Open = {"<|begin_of_text|>"};
inline const Pieces kLlama3System = {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{{SYSTEM}}<|eot_id|>"};

}  // namespace hone::text::swift_pieces

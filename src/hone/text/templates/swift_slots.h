// Slots common to several of ms-swift's templates.
#pragma once
#include "hone/text/templates/tables.h"

namespace hone::text::swift_pieces {

inline const TemplateSlots kChatmlUser = {"<|im_start|>user\n{{QUERY}}<|im_end|>\n<|im_start|>assistant\n"};
inline const TemplateSlots kChatmlEnd = {"<|im_end|>\n"};
inline const TemplateSlots kChatmlSystem = {"<|im_start|>system\n{{SYSTEM}}<|im_end|>\n"};
inline const TemplateSlots kLlama3User = {
    "<|start_header_id|>user<|end_header_id|>\n\n{{QUERY}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const TemplateSlots kLlama3End = {"<|eot_id|>"};
inline const TemplateSlots kLlama3Open = {"<|begin_of_text|>"};
inline const TemplateSlots kLlama3System = {
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{{SYSTEM}}<|eot_id|>"};

}  // namespace hone::text::swift_pieces

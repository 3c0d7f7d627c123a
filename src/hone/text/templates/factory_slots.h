// Slots common to several of LLaMA-Factory's templates.
#pragma once
#include "hone/text/templates/tables.h"

namespace hone::text::factory_pieces {

inline const TemplateSlots kContent = {"{{content}}"};
inline const TemplateSlots kContentEos = {"{{content}}", kEos};
inline const TemplateSlots kBosOnly = {kBos};
inline const TemplateSlots kChatmlUser = {"<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
inline const TemplateSlots kChatmlAssistant = {"{{content}}<|im_end|>\n"};
inline const TemplateSlots kChatmlSystem = {"<|im_start|>system\n{{content}}<|im_end|>\n"};
inline const TemplateSlots kChatmlTool = {"<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
inline const TemplateSlots kQwenTool = {
    "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"};
inline const TemplateSlots kLlama3User = {
    "<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const TemplateSlots kLlama3Assistant = {"{{content}}<|eot_id|>"};
inline const TemplateSlots kLlama3System = {"<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"};
inline const TemplateSlots kLlama3Tool = {
    "<|start_header_id|>ipython<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const TemplateSlots kGemmaUser = {"<start_of_turn>user\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};
inline const TemplateSlots kGemmaAssistant = {"{{content}}<end_of_turn>\n"};
inline const TemplateSlots kGemmaTool = {"<start_of_turn>tool\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};

}  // namespace hone::text::factory_pieces

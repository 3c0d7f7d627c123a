// Pieces that several of LLaMA-Factory's templates are made of.
#pragma once
#include "hone/text/templates/tables.h"

namespace hone::text::factory_pieces {

inline const Pieces kContent = {"{{content}}"};
inline const Pieces kContentEos = {"{{content}}", kEos};
inline const Pieces kBosOnly = {kBos};
inline const Pieces kChatmlUser = {"<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
inline const Pieces kChatmlAnswer = {"{{content}}<|im_end|>\n"};
inline const Pieces kChatmlSystem = {"<|im_start|>system\n{{content}}<|im_end|>\n"};
inline const Pieces kChatmlTool = {"<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
inline const Pieces kQwenTool = {"<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"};
inline const Pieces kLlama3User = {"<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const Pieces kLlama3Answer = {"{{content}}<|eot_id|>"};
inline const Pieces kLlama3System = {"<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"};
inline const Pieces kLlama3Tool = {"<|start_header_id|>ipython<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
inline const Pieces kGemmaUser = {"<start_of_turn>user\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};
inline const Pieces kGemmaAnswer = {"{{content}}<end_of_turn>\n"};
inline const Pieces kGemmaTool = {"<start_of_turn>tool\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};

}  // namespace hone::text::factory_pieces

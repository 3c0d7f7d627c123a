// ms-swift's named templates from "gemma" to "longwriter", as data.
// One entry per template; omitted fields have their defaults.
#include "hone/text/templates/swift_slots.h"

namespace hone::text {
std::vector<SwiftTemplate> swift_templates_g_l() {
  using namespace swift_pieces;
  using Quirk = SwiftTemplate::Quirk;
  using SystemForm = SwiftTemplate::SystemForm;
  static const TemplateSlots kGemmaUser = {"<start_of_turn>user\n{{QUERY}}<end_of_turn>\n<start_of_turn>model\n"};
  static const TemplateSlots kGlmOpen = {"[gMASK]<sop>"};
  static const TemplateSlots kGlmSystem = {"[gMASK]<sop><|system|>\n{{SYSTEM}}"};
  static const TemplateSlots kGlmUser = {"<|user|>\n{{QUERY}}<|assistant|>\n"};
  static const SystemForm kGlmEffort{"Reasoning Effort: Max<|system|>{{SYSTEM}}", "Reasoning Effort: Max", ""};
  auto hy_effort = [](const std::string& mark, const std::string& level) {
    auto note = "<｜reasoning_mode" + mark + "｜>reasoning_effort:" + level;
    return SystemForm{"{{SYSTEM}}" + note, note, ""};
  };
  // A table: an entry is a few lines.
  // clang-format off
  return {
    {.name = "gemma", .prefix = {"<bos>"}, .system_prefix = TemplateSlots{"<bos><start_of_turn>system\n{{SYSTEM}}<end_of_turn>\n"},
     .prompt = kGemmaUser, .chat_sep = TemplateSlots{"<end_of_turn>\n"}, .suffix = {"<end_of_turn>"}},
    {.name = "gemma3_text", .prefix = {"<bos>"}, .prompt = kGemmaUser, .chat_sep = TemplateSlots{"<end_of_turn>\n"},
     .suffix = {"<end_of_turn>"}, .quirk = Quirk::gemma_system},
    {.name = "gemma3_vision", .prefix = {"<bos>"},
     .system_prefix = TemplateSlots{"<bos><start_of_turn>system\n{{SYSTEM}}<end_of_turn>\n"}, .prompt = kGemmaUser,
     .chat_sep = TemplateSlots{"<end_of_turn>\n"}, .suffix = {"<end_of_turn>"}, .quirk = Quirk::gemma_system},
    {.name = "gemma4", .prefix = {"<bos>"}, .system_prefix = TemplateSlots{"<bos><|turn>system\n{{SYSTEM}}<turn|>\n"},
     .prompt = {"<|turn>user\n{{QUERY}}<turn|>\n<|turn>model\n"}, .chat_sep = TemplateSlots{"<turn|>\n"}, .suffix = {"<turn|>\n"},
     .stop_words = {"<eos>", "<turn|>", "<|tool_response>"}, .agent = "gemma4", .thinking = true,
     .thinking_system = SystemForm{"<|think|>\n{{SYSTEM}}", "<|think|>\n", ""}, .reasoning_open = "<|channel>thought", .reasoning_close = "<channel|>",
     .non_thinking_prefix = "<|channel>thought\n<channel|>", .non_thinking_after_user_only = true},
    {.name = "gemma4_nothinking", .prefix = {"<bos>"}, .system_prefix = TemplateSlots{"<bos><|turn>system\n{{SYSTEM}}<turn|>\n"},
     .prompt = {"<|turn>user\n{{QUERY}}<turn|>\n<|turn>model\n"}, .chat_sep = TemplateSlots{"<turn|>\n"}, .suffix = {"<turn|>\n"},
     .stop_words = {"<eos>", "<turn|>", "<|tool_response>"}, .agent = "gemma4", .thinking_system = SystemForm{"<|think|>\n{{SYSTEM}}", "<|think|>\n", ""},
     .reasoning_open = "<|channel>thought", .reasoning_close = "<channel|>", .non_thinking_after_user_only = true},
    {.name = "glm4", .prefix = kGlmOpen, .system_prefix = kGlmSystem, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .auto_add_bos = true, .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm4",
     .thinking_prefix = "<think>", .quirk = Quirk::glm_newline},
    {.name = "glm4_5", .prefix = kGlmOpen, .system_prefix = kGlmSystem, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .auto_add_bos = true, .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm4_5", .thinking = true,
     .non_thinking_prefix = "<think></think>\n", .history_thinking_prefix = "<think></think>\n", .quirk = Quirk::glm_newline},
    {.name = "glm4_7", .prefix = kGlmOpen, .system_prefix = TemplateSlots{"[gMASK]<sop><|system|>{{SYSTEM}}"},
     .prompt = {"<|user|>{{QUERY}}<|assistant|>"}, .suffix = {"<|user|>"}, .auto_add_bos = true,
     .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm4_7", .thinking = true,
     .thinking_prefix = "<think>", .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>",
     .quirk = Quirk::glm_newline},
    {.name = "glm4_z1_rumination", .prefix = kGlmOpen, .system_prefix = kGlmSystem, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .default_system = "你是一个专业的深度研究助手，通过提供的工具与模拟浏览器交互，来帮助用户完成深度信息调研和报告撰写任务。今年是 2025 年。\n\n<核心要求>\n- 首先分解用户请求，得到包含多个子要求的列表\n- 制定初始研究计划\n- "
      "进行多轮迭代搜索和页面浏览（at least 10 function calls）：\n    * 根据已获得的信息调整研究计划和关键词\n    * 打开页面阅读，从发现的内容中识别新的关键概念/名词\n    * "
      "从搜索结果中提取新的关键词继续搜索\n    * 访问并仔细阅读相关页面，识别新的关键概念/名词\n\n<重要配置>\n- 采用语言\n    * 搜索关键词：英文\n    * 思考：英文\n\n<可调用的工具列表>\n"
      "[{\"name\": \"search\", \"description\": \"Execute a search query and return search results. Use this function when "
      "you need to find information about a specific topic.\", \"parameters\": {\"type\": \"object\", \"properties\": "
      "{\"query\": {\"type\": \"string\", \"description\": \"Search query string, use English words unless it is a proper "
      "name in Chinese\"}}, \"required\": [\"query\"], \"additionalProperties\": false}}, {\"name\": \"click\", "
      "\"description\": \"Click a link in the search results and navigate to the corresponding page. Use this function when "
      "you need to view detailed content of a specific search result.\", \"parameters\": {\"type\": \"object\", "
      "\"properties\": {\"link_id\": {\"type\": \"integer\", \"description\": \"The link ID to click (from the sequence "
      "number in search results)\"}}, \"required\": [\"link_id\"], \"additionalProperties\": false}}, {\"name\": \"open\", "
      "\"description\": \"Open a specific website. Get content from any website with its URL.\", \"parameters\": {\"type\": "
      "\"object\", \"properties\": {\"url\": {\"type\": \"string\", \"description\": \"The target website URL or domain\"}}, "
      "\"required\": [\"url\"], \"additionalProperties\": false}}, {\"name\": \"finish\", \"description\": \"Finish the "
      "task. Use this function when you have found the information you need.\", \"parameters\": {\"type\": \"object\", "
      "\"properties\": {}, \"additionalProperties\": false}}]", .auto_add_bos = true,
     .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm4", .thinking = true,
     .quirk = Quirk::glm_newline},
    {.name = "glm4v", .prefix = kGlmOpen, .system_prefix = kGlmSystem, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .auto_add_bos = true, .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm4"},
    {.name = "glm5_1", .prefix = kGlmOpen, .system_prefix = TemplateSlots{"[gMASK]<sop><|system|>{{SYSTEM}}"},
     .prompt = {"<|user|>{{QUERY}}<|assistant|>"}, .suffix = {"<|user|>"}, .auto_add_bos = true,
     .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm5_1", .thinking = true,
     .thinking_prefix = "<think>", .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>",
     .quirk = Quirk::glm_newline},
    {.name = "glm5_2", .prefix = kGlmOpen, .system_prefix = TemplateSlots{"[gMASK]<sop><|system|>{{SYSTEM}}"},
     .prompt = {"<|user|>{{QUERY}}<|assistant|>"}, .suffix = {"<|user|>"}, .auto_add_bos = true,
     .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm5_1", .thinking = true,
     .thinking_system = kGlmEffort, .thinking_prefix = "<think>", .non_thinking_prefix = "<think></think>",
     .history_thinking_prefix = "<think></think>", .quirk = Quirk::glm_newline},
    {.name = "glm5_3", .prefix = kGlmOpen, .system_prefix = TemplateSlots{"[gMASK]<sop><|system|>{{SYSTEM}}"},
     .prompt = {"<|user|>{{QUERY}}<|assistant|>"}, .suffix = {"<|user|>"}, .auto_add_bos = true,
     .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "glm5_1", .thinking = true, .thinking_by_default = true,
     .thinking_system = kGlmEffort, .plain_system = kGlmEffort, .thinking_prefix = "<think>", .non_thinking_prefix = "<think></think>",
     .history_thinking_prefix = "<think></think>", .preserve_thinking = true, .quirk = Quirk::glm_newline},
    {.name = "gpt_oss", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"},
     .prompt = {"<|start|>user<|message|>{{QUERY}}<|end|><|start|>assistant"}, .chat_sep = TemplateSlots{"<|end|>"}, .suffix = {"<|return|>"},
     .quirk = Quirk::harmony},
    {.name = "hunyuan", .prefix = {"<｜hy_begin▁of▁sentence｜>"},
     .system_prefix = TemplateSlots{"<｜hy_begin▁of▁sentence｜>{{SYSTEM}}<｜hy_place▁holder▁no▁3｜>"},
     .prompt = {"<｜hy_User｜>{{QUERY}}<｜hy_Assistant｜>"}, .chat_sep = TemplateSlots{"<｜hy_place▁holder▁no▁2｜>"},
     .suffix = {"<｜hy_place▁holder▁no▁2｜>"}, .agent = "hunyuan_hermes", .thinking = true,
     .non_thinking_prefix = "<think>\n\n</think>\n", .quirk = Quirk::hunyuan_answer},
    {.name = "hunyuan_moe", .prefix = {"<|startoftext|>"}, .system_prefix = TemplateSlots{"<|startoftext|>{{SYSTEM}}<|extra_4|>"},
     .prompt = {"{{QUERY}}<|extra_0|>"}, .chat_sep = TemplateSlots{"<|eos|><|startoftext|>"}, .suffix = {"<|eos|>"}},
    {.name = "hy_v3", .prefix = {"<｜hy_begin_of_sentence:opensource｜>"},
     .system_prefix = TemplateSlots{"<｜hy_begin_of_sentence:opensource｜>{{SYSTEM}}"},
     .prompt = {"<｜hy_User:opensource｜>{{QUERY}}<｜hy_Assistant:opensource｜>"}, .chat_sep = TemplateSlots{"<｜hy_eos:opensource｜>"},
     .suffix = {"<｜hy_eos:opensource｜>"}, .agent = "hy_v3", .thinking = true,
     .thinking_system = hy_effort(":opensource", "high"), .plain_system = hy_effort(":opensource", "no_think"),
     .thinking_prefix = "<think:opensource>", .non_thinking_prefix = "<think:opensource></think:opensource>",
     .history_thinking_prefix = "<think:opensource></think:opensource>"},
    {.name = "hy_v3_preview", .prefix = {"<｜hy_begin▁of▁sentence｜>"}, .system_prefix = TemplateSlots{"<｜hy_begin▁of▁sentence｜>{{SYSTEM}}"},
     .prompt = {"<｜hy_User｜>{{QUERY}}<｜hy_Assistant｜>"}, .chat_sep = TemplateSlots{"<｜hy_eos｜>"}, .suffix = {"<｜hy_eos｜>"},
     .agent = "hy_v3_preview", .thinking = true, .thinking_system = hy_effort("", "high"), .plain_system = hy_effort("", "no_think"),
     .thinking_prefix = "<think>", .non_thinking_prefix = "<think></think>", .history_thinking_prefix = "<think></think>"},
    {.name = "internlm", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s><|System|>:{{SYSTEM}}\n"},
     .prompt = {"<|User|>:{{QUERY}}\n<|Bot|>:"}, .chat_sep = TemplateSlots{"<eoa>\n"}, .suffix = {"<eoa>"},
     .default_system = "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) is a conversational language model that "
      "is developed by Shanghai AI Laboratory (上海人工智能实验室). It is designed to be helpful, honest, and harmless.\n- InternLM "
      "(书生·浦语) can understand and communicate fluently in the language chosen by the user such as English and 中文."},
    {.name = "internlm2", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) is a conversational language model that "
      "is developed by Shanghai AI Laboratory (上海人工智能实验室). It is designed to be helpful, honest, and harmless.\n- InternLM "
      "(书生·浦语) can understand and communicate fluently in the language chosen by the user such as English and 中文.",
     .auto_add_bos = true},
    {.name = "interns1", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are an expert reasoner with extensive experience in all areas. You approach problems through systematic thinking "
      "and rigorous reasoning. Your response should reflect deep understanding and precise logical thinking, making your "
      "solution path and reasoning clear to others. Please put your thinking process within <think>...</think> tags.",
     .auto_add_bos = true, .thinking = true, .thinking_prefix = "<think>"},
    {.name = "internvl2", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，英文名叫InternVL, 是一个有用无害的人工智能助手。", .auto_add_bos = true},
    {.name = "internvl2_5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。", .auto_add_bos = true},
    {.name = "internvl3_5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true},
    {.name = "internvl_hf", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true},
    {.name = "iquestcoder", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are LoopCoder, a helpful assistant developed by IQuest.", .stop_words = {"<|endoftext|>"},
     .agent = "hermes"},
    {.name = "kimi_k2", .system_prefix = TemplateSlots{"<|im_system|>system<|im_middle|>{{SYSTEM}}<|im_end|>"},
     .prompt = {"<|im_user|>user<|im_middle|>{{QUERY}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .chat_sep = TemplateSlots{"<|im_end|>"}, .suffix = {"<|im_end|>"},
     .default_system = "You are Kimi, an AI assistant created by Moonshot AI."},
    {.name = "kimi_k25", .system_prefix = TemplateSlots{"<|im_system|>system<|im_middle|>{{SYSTEM}}<|im_end|>"},
     .prompt = {"<|im_user|>user<|im_middle|>{{QUERY}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .chat_sep = TemplateSlots{"<|im_end|>"}, .suffix = {"<|im_end|>"}, .agent = "kimi_k25", .thinking = true, .thinking_prefix = "<think>",
     .non_thinking_prefix = "<think></think>", .history_thinking_prefix = "<think></think>"},
    {.name = "kimi_vl", .system_prefix = TemplateSlots{"<|im_system|>system<|im_middle|>{{SYSTEM}}<|im_end|>"},
     .prompt = {"<|im_user|>user<|im_middle|>{{QUERY}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .chat_sep = TemplateSlots{"<|im_end|>"}, .suffix = {"<|im_end|>"}, .default_system = "You are a helpful assistant"},
    {.name = "ling", .system_prefix = TemplateSlots{"<role>SYSTEM</role>{{SYSTEM}}"},
     .prompt = {"<role>HUMAN</role>{{QUERY}}<role>ASSISTANT</role>"}, .suffix = {"<|endoftext|>"}},
    {.name = "ling2", .prefix = {"<role>SYSTEM</role>detailed thinking off<|role_end|>"},
     .system_prefix = TemplateSlots{"<role>SYSTEM</role>{{SYSTEM}}\ndetailed thinking off<|role_end|>"},
     .prompt = {"<role>HUMAN</role>{{QUERY}}<|role_end|><role>ASSISTANT</role>"}, .chat_sep = TemplateSlots{"<|role_end|>"},
     .suffix = {"<|role_end|>"}},
    {.name = "ling3", .prefix = {"<role>SYSTEM</role><|role_end|>"}, .system_prefix = TemplateSlots{"<role>SYSTEM</role>{{SYSTEM}}<|role_end|>"},
     .prompt = {"<role>HUMAN</role>{{QUERY}}<|role_end|><role>ASSISTANT</role>\n"}, .chat_sep = TemplateSlots{"<|role_end|>"},
     .suffix = {"<|role_end|>"}, .agent = "ling3", .thinking = true, .thinking_by_default = true,
     .thinking_system = SystemForm{"{{SYSTEM}}\ndetailed thinking on", "detailed thinking on", "detailed thinking o"},
     .plain_system = SystemForm{"{{SYSTEM}}\ndetailed thinking off", "detailed thinking off", "detailed thinking o"},
     .thinking_prefix = "<think>", .non_thinking_prefix = "<think></think>"},
    {.name = "llama", .prefix = {"<s>[INST] "}, .system_prefix = TemplateSlots{"<s>[INST] <<SYS>>\n{{SYSTEM}}\n<</SYS>>\n\n"},
     .prompt = {"{{QUERY}} [/INST]"}, .chat_sep = TemplateSlots{"</s><s>[INST] "}, .suffix = {"</s>"},
     .default_system = "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible, while being safe. Your "
      "answers should not include any harmful, unethical, racist, sexist, toxic, dangerous, or illegal content. Please "
      "ensure that your responses are socially unbiased and positive in nature.\n\nIf a question does not make any sense, or "
      "is not factually coherent, explain why instead of answering something not correct. If you don't know the answer to a "
      "question, please don't share false information."},
    {.name = "llama3", .prefix = kLlama3Open, .system_prefix = kLlama3System, .prompt = kLlama3User, .chat_sep = kLlama3End,
     .suffix = kLlama3End, .agent = "llama3"},
    {.name = "llama3_2",
     .prefix = {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n<|eot_id|>"},
     .system_prefix = TemplateSlots{"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n{{SYSTEM}}<|eot_id|>"}, .prompt = kLlama3User, .chat_sep = kLlama3End, .suffix = kLlama3End,
     .agent = "llama3"},
    {.name = "llama3_2_vision",
     .prefix = {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n<|eot_id|>"},
     .system_prefix = TemplateSlots{"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n{{SYSTEM}}<|eot_id|>"}, .prompt = kLlama3User, .chat_sep = kLlama3End, .suffix = kLlama3End,
     .agent = "llama3"},
    {.name = "llama4", .prefix = kLlama3Open,
     .system_prefix = TemplateSlots{"<|begin_of_text|><|header_start|>system<|header_end|>\n\n{{SYSTEM}}<|eot|>"},
     .prompt = {"<|header_start|>user<|header_end|>\n\n{{QUERY}}<|eot|><|header_start|>assistant<|header_end|>\n\n"},
     .chat_sep = TemplateSlots{"<|eot|>"}, .suffix = {"<|eot|>"}, .stop_words = {"<|end_of_text|>", "<|eom|>"}, .agent = "llama4"},
    {.name = "longchat", .system_prefix = TemplateSlots{"SYSTEM:{{SYSTEM}}"},
     .prompt = {" [Round {{ROUND0}}] USER:{{QUERY}} ASSISTANT:"}, .chat_sep = TemplateSlots{"</longcat_s>"}, .suffix = {"</longcat_s>"}},
    {.name = "longwriter_llama", .prefix = {"[INST]"}, .system_prefix = TemplateSlots{"<<SYS>>\n{{SYSTEM}}\n<</SYS>>\n\n"},
     .prompt = {"{{QUERY}}[/INST]"}, .chat_sep = TemplateSlots{"[INST]"}, .suffix = {"<|end_of_text|>"}},
  };
  // clang-format on
}

}  // namespace hone::text

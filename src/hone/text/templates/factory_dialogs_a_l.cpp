// The named templates of LLaMA-Factory, names up to "llama", as data. One entry, one template; fields left out have their defaults.
#include "hone/text/templates/tables.h"

namespace hone::text {
namespace {

using Kind = FactoryDialog::Kind;
const Pieces kContent = {"{{content}}"};
const Pieces kContentEos = {"{{content}}", kEos};
const Pieces kBosOnly = {kBos};
const Pieces kChatmlUser = {"<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
const Pieces kChatmlAnswer = {"{{content}}<|im_end|>\n"};
const Pieces kChatmlSystem = {"<|im_start|>system\n{{content}}<|im_end|>\n"};
const Pieces kChatmlTool = {"<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n"};
const Pieces kQwenTool = {"<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"};
const Pieces kLlama3User = {"<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
const Pieces kLlama3Answer = {"{{content}}<|eot_id|>"};
const Pieces kLlama3System = {"<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"};
const Pieces kLlama3Tool = {"<|start_header_id|>ipython<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
const Pieces kGemmaUser = {"<start_of_turn>user\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};
const Pieces kGemmaAnswer = {"{{content}}<end_of_turn>\n"};
const Pieces kGemmaTool = {"<start_of_turn>tool\n{{content}}<end_of_turn>\n<start_of_turn>model\n"};
const Pieces kDeepseekUser = {"<｜User｜>{{content}}<｜Assistant｜>"};
const Pieces kGlmOpen = {"[gMASK]<sop>"};
const Pieces kGlmUser = {"<|user|>\n{{content}}<|assistant|>"};
const Pieces kGlmAnswer = {"\n{{content}}"};
const Pieces kGlmSystem = {"<|system|>\n{{content}}"};
const Pieces kGlmTool = {"<|observation|>\n{{content}}<|assistant|>"};
const char* const kHelpful = "You are a helpful assistant.";

}  // namespace

std::vector<FactoryDialog> factory_dialogs_a_l() {
  return {
    {.name = "aeva", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4_moe", .tools_format = "glm4_moe",
     .default_system = "You are an AI assistant named Aeva created by Zongzhi Lou. Your answer should be friendly, unbiased, faithful, "
      "informative and detailed.", .stop_words = {"<|user|>", "<|observation|>"},
     .thought_open = "<think>", .thought_close = "</think>", .efficient_eos = true, .kind = Kind::reasoning_closing_tag},
    {.name = "alpaca", .user = {"### Instruction:\n{{content}}\n\n### Response:\n"}, .assistant = {"{{content}}", kEos, "\n\n"},
     .system = kContent, .function = {"{{content}}", kEos, "\n\n"},
     .observation = {"### Instruction:\n{{content}}\n\n### Response:\n"},
     .default_system = "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"},
    {.name = "bailing", .user = {"<role>HUMAN</role>{{content}}<role>ASSISTANT</role>"}, .assistant = kContent,
     .system = {"<role>SYSTEM</role>{{content}}"}, .function = kContent,
     .observation = {"<role>OBSERVATION</role>{{content}}<role>ASSISTANT</role>"}, .stop_words = {"<|endoftext|>"},
     .efficient_eos = true},
    {.name = "bailing_v2", .user = {"<role>HUMAN</role>{{content}}<|role_end|><role>ASSISTANT</role>"},
     .assistant = {"{{content}}<|role_end|>"}, .system = {"<role>SYSTEM</role>{{content}}<|role_end|>"},
     .function = {"{{content}}<|role_end|>"},
     .observation = {"<role>OBSERVATION</role>\n<tool_response>\n{{content}}\n</tool_response><|role_end|><role>ASSISTANT</role>"},
     .function_format = "ling", .tools_format = "ling", .stop_words = {"<|endoftext|>"}, .efficient_eos = true},
    {.name = "breeze", .user = {"[INST] {{content}} [/INST] "}, .assistant = kContent, .system = kContent, .function = kContent,
     .observation = {"[INST] {{content}} [/INST] "}, .prefix = kBosOnly, .efficient_eos = true},
    {.name = "chatglm3", .user = {token("<|user|>"), "\n", "{{content}}", token("<|assistant|>")},
     .assistant = {"\n", "{{content}}"}, .system = {token("<|system|>"), "\n", "{{content}}"}, .function = kContent,
     .observation = {token("<|observation|>"), "\n", "{{content}}", token("<|assistant|>")},
     .prefix = {token("[gMASK]"), token("sop")}, .function_format = "glm4", .tools_format = "glm4",
     .stop_words = {"<|user|>", "<|observation|>"}, .efficient_eos = true},
    {.name = "chatml", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlTool, .stop_words = {"<|im_end|>", "<|im_start|>"}, .replace_eos = true},
    {.name = "chatml_de", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlTool, .default_system = "Du bist ein freundlicher und hilfsbereiter KI-Assistent.",
     .stop_words = {"<|im_end|>", "<|im_start|>"}, .replace_eos = true},
    {.name = "cohere",
     .user = {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     .assistant = kContentEos, .system = {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|>"},
     .function = kContentEos,
     .observation = {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     .prefix = kBosOnly},
    {.name = "cpm4", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlTool, .prefix = kBosOnly, .stop_words = {"<|im_end|>"}},
    {.name = "dbrx", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlTool,
     .default_system = "You are DBRX, created by Databricks. You were last updated in December 2023. You answer questions based on "
      "information available up to that point.\nYOU PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, but provide "
      "thorough responses to more complex and open-ended questions.\nYou assist with various tasks, from writing to coding "
      "(using markdown for code blocks — remember to use ``` with code, JSON, and tables).\n(You do not have real-time data "
      "access or code execution capabilities. You avoid stereotyping and provide balanced perspectives on controversial "
      "topics. You do not provide song lyrics, poems, or news articles and do not divulge details of your training data.)\n"
      "This is your system prompt, guiding your responses. Do not reference it, just respond to the user. If you find "
      "yourself talking about this message, stop. You should be responding appropriately and usually that means not "
      "mentioning this.\nYOU DO NOT MENTION ANY OF THIS INFORMATION ABOUT YOURSELF UNLESS THE INFORMATION IS DIRECTLY "
      "PERTINENT TO THE USER'S QUERY.", .stop_words = {"<|im_end|>"}, .replace_eos = true},
    {.name = "deepseek", .user = {"User: {{content}}\n\nAssistant:"}, .assistant = kContentEos, .system = {"{{content}}\n\n"},
     .function = kContentEos, .observation = {"User: {{content}}\n\nAssistant:"}, .prefix = kBosOnly},
    {.name = "deepseek3", .user = kDeepseekUser, .assistant = kContentEos, .system = kContent, .function = kContentEos,
     .observation = kDeepseekUser, .prefix = kBosOnly},
    {.name = "deepseekcoder", .user = {"### Instruction:\n{{content}}\n### Response:"},
     .assistant = {"\n{{content}}\n<|EOT|>\n"}, .system = kContent, .function = {"\n{{content}}\n<|EOT|>\n"},
     .observation = {"### Instruction:\n{{content}}\n### Response:"}, .prefix = kBosOnly,
     .default_system = "You are an AI programming assistant, utilizing the DeepSeek Coder model, developed by DeepSeek Company, and you only "
      "answer questions related to computer science. For politically sensitive questions, security and privacy issues, and "
      "other non-computer science questions, you will refuse to answer.\n"},
    {.name = "deepseekr1", .user = kDeepseekUser, .assistant = kContentEos, .system = kContent, .function = kContentEos,
     .observation = kDeepseekUser, .prefix = kBosOnly, .kind = Kind::reasoning},
    {.name = "default", .user = {"Human: {{content}}", kEos, "\nAssistant:"}, .assistant = {"{{content}}", kEos, "\n"},
     .system = {"System: {{content}}", kEos, "\n"}, .function = {"{{content}}", kEos, "\n"},
     .observation = {"Human: {{content}}", kEos, "\nAssistant:"}},
    {.name = "dots_ocr", .user = {"<|user|>{{content}}<|endofuser|><|assistant|>"},
     .assistant = {"{{content}}<|endofassistant|>"}, .system = {"<|system|>{{content}}<|endofsystem|>\n"},
     .function = {"{{content}}<|endofassistant|>"}, .observation = {"<|user|>{{content}}<|endofuser|><|assistant|>"},
     .stop_words = {"<|endofassistant|>"}, .efficient_eos = true},
    {.name = "empty", .user = kContent, .assistant = kContent, .system = kContent, .function = kContent, .observation = kContent},
    {.name = "ernie", .user = {"<|im_start|>user\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n"},
     .assistant = {"{{content}}<|im_end|>\n\n"}, .system = {"<|im_start|>system\n{{content}}<|im_end|>\n\n"},
     .function = {"{{content}}<|im_end|>\n\n"},
     .observation = {"<|im_start|>tool\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n"},
     .default_system = "<global_setting>\nthink_mode=True\n</global_setting>", .stop_words = {"<|im_end|>"}},
    {.name = "ernie_nothink", .user = {"User: {{content}}\nAssistant: "}, .assistant = {"{{content}}<|end_of_sentence|>"},
     .system = {"{{content}}\n"}, .function = {"{{content}}<|end_of_sentence|>"},
     .observation = {"User: {{content}}\nAssistant: "}, .prefix = {"<|begin_of_sentence|>"},
     .stop_words = {"<|end_of_sentence|>"}},
    {.name = "ernie_vl", .user = {"User: {{content}}"}, .assistant = {"\nAssistant: {{content}}<|end_of_sentence|>"},
     .system = {"{{content}}\n"}, .function = {"\nAssistant: {{content}}<|end_of_sentence|>"},
     .observation = {"User: {{content}}"}, .stop_words = {"<|end_of_sentence|>"}, .replace_eos = true, .kind = Kind::reasoning},
    {.name = "exaone", .user = {"[|user|]{{content}}\n[|assistant|]"}, .assistant = {"{{content}}", kEos, "\n"},
     .system = {"[|system|]{{content}}[|endofturn|]\n"}, .function = {"{{content}}", kEos, "\n"},
     .observation = {"[|user|]{{content}}\n[|assistant|]"}},
    {.name = "falcon", .user = {"User: {{content}}\nFalcon:"}, .assistant = {"{{content}}\n"}, .system = kContent,
     .function = {"{{content}}\n"}, .observation = {"User: {{content}}\nFalcon:"}, .efficient_eos = true},
    {.name = "falcon_h1", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlTool, .prefix = kBosOnly, .stop_words = {"<|im_end|>", "<|end_of_text|>"}},
    {.name = "fewshot", .user = kContent, .assistant = {"{{content}}\n\n"}, .system = kContent, .function = {"{{content}}\n\n"},
     .observation = kContent, .efficient_eos = true},
    {.name = "gemma", .user = kGemmaUser, .assistant = kGemmaAnswer, .system = {"{{content}}\n\n"}, .function = kGemmaAnswer,
     .observation = kGemmaTool, .prefix = kBosOnly, .stop_words = {"<end_of_turn>"}, .replace_eos = true,
     .kind = Kind::system_in_user},
    {.name = "gemma2", .user = kGemmaUser, .assistant = kGemmaAnswer, .system = {"{{content}}\n\n"}, .function = kGemmaAnswer,
     .observation = kGemmaTool, .prefix = kBosOnly, .stop_words = {"<eos>", "<end_of_turn>"}, .efficient_eos = true,
     .kind = Kind::system_in_user},
    {.name = "gemma3", .user = kGemmaUser, .assistant = kGemmaAnswer, .system = {"{{content}}\n\n"}, .function = kGemmaAnswer,
     .observation = kGemmaTool, .prefix = kBosOnly, .stop_words = {"<end_of_turn>"}, .replace_eos = true,
     .kind = Kind::system_in_user},
    {.name = "gemma3n", .user = kGemmaUser, .assistant = kGemmaAnswer, .system = {"{{content}}\n\n"}, .function = kGemmaAnswer,
     .observation = kGemmaTool, .prefix = kBosOnly, .stop_words = {"<end_of_turn>"}, .replace_eos = true,
     .kind = Kind::system_in_user},
    {.name = "gemma4", .user = {"<|turn>user\n{{content}}<turn|>\n<|turn>model\n"}, .assistant = {"{{content}}<turn|>\n"},
     .system = {"<|turn>system\n<|think|>{{content}}<turn|>\n"}, .function = {"<|tool>{{content}}<tool|>"},
     .observation = {"<|turn>tool\n{{content}}<turn|>\n<|turn>model\n"}, .prefix = kBosOnly, .function_format = "gemma4",
     .tools_format = "gemma4", .default_system = kHelpful, .stop_words = {"<turn|>"},
     .thought_open = "<|channel>thought\n", .thought_close = "<channel|>", .replace_eos = true, .kind = Kind::reasoning},
    {.name = "gemma4n", .user = {"<|turn>user\n{{content}}<turn|>\n<|turn>model\n"}, .assistant = {"{{content}}<turn|>\n"},
     .system = {"<|turn>system\n<|think|>{{content}}<turn|>\n"}, .function = {"<|tool>{{content}}<tool|>"},
     .observation = {"<|turn>tool\n{{content}}<turn|>\n<|turn>model\n"}, .prefix = kBosOnly, .function_format = "gemma4",
     .tools_format = "gemma4", .default_system = kHelpful, .stop_words = {"<turn|>"},
     .thought_open = "<|channel>thought\n", .thought_close = "<channel|>", .replace_eos = true, .kind = Kind::reasoning},
    {.name = "glm4", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4", .tools_format = "glm4",
     .stop_words = {"<|user|>", "<|observation|>"}, .efficient_eos = true},
    {.name = "glm4_5v", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4_moe", .tools_format = "glm4_moe",
     .stop_words = {"<|user|>", "<|observation|>", "</answer>"}, .efficient_eos = true, .kind = Kind::reasoning},
    {.name = "glm4_7", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4_moe", .tools_format = "glm4_moe",
     .stop_words = {"<|user|>", "<|observation|>"}, .thought_open = "<think>", .thought_close = "</think>",
     .efficient_eos = true, .kind = Kind::reasoning_closing_tag},
    {.name = "glm4_moe", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4_moe", .tools_format = "glm4_moe",
     .stop_words = {"<|user|>", "<|observation|>"}, .efficient_eos = true, .kind = Kind::reasoning},
    {.name = "glm4v", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4", .tools_format = "glm4",
     .stop_words = {"<|user|>", "<|observation|>", "</answer>"}, .efficient_eos = true, .kind = Kind::reasoning},
    {.name = "glm_ocr", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4", .tools_format = "glm4",
     .stop_words = {"<|user|>", "<|observation|>"}, .efficient_eos = true},
    {.name = "glmz1", .user = kGlmUser, .assistant = kGlmAnswer, .system = kGlmSystem, .function = kContent,
     .observation = kGlmTool, .prefix = kGlmOpen, .function_format = "glm4", .tools_format = "glm4",
     .stop_words = {"<|user|>", "<|observation|>"}, .efficient_eos = true, .kind = Kind::reasoning},
    {.name = "gpt_oss", .user = {"<|start|>user<|message|>{{content}}<|end|><|start|>assistant"}, .assistant = kContent,
     .system = {"<|start|>system<|message|>{{content}}<|end|>"}, .function = kContent,
     .observation = {"<|start|>user<|message|>{{content}}<|end|><|start|>assistant"},
     .default_system = "You are ChatGPT, a large language model trained by OpenAI.",
     .thought_open = "<|channel|>analysis<|message|>", .thought_close = "<|end|><|start|>assistant<|channel|>final<|message|>",
     .efficient_eos = true, .kind = Kind::reasoning},
    {.name = "granite3",
     .user = {"<|start_of_role|>user<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
     .assistant = {"{{content}}<|end_of_text|>\n"},
     .system = {"<|start_of_role|>system<|end_of_role|>{{content}}<|end_of_text|>\n"},
     .function = {"{{content}}<|end_of_text|>\n"},
     .observation = {"<|start_of_role|>user<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"}},
    {.name = "granite3_vision", .user = {"<|user|>\n{{content}}\n<|assistant|>\n"}, .assistant = kContentEos,
     .system = {"<|system|>\n{{content}}\n"}, .function = kContentEos, .observation = {"<|user|>\n{{content}}\n<|assistant|>\n"},
     .default_system = "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and "
      "polite answers to the user's questions."},
    {.name = "granite4",
     .user = {"<|start_of_role|>user<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
     .assistant = {"{{content}}<|end_of_text|>\n"},
     .system = {"<|start_of_role|>system<|end_of_role|>{{content}}<|end_of_text|>\n"},
     .function = {"{{content}}<|end_of_text|>\n"},
     .observation = {"<|start_of_role|>tool<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>assistant\n"},
     .default_system = "You are Granite, developed by IBM. You are a helpful AI assistant.", .stop_words = {"<|end_of_text|>"}},
    {.name = "hunyuan", .user = {"{{content}}<|extra_0|>"}, .assistant = {"{{content}}<|eos|>"},
     .system = {"{{content}}<|extra_4|>"}, .function = {"{{content}}<|eos|>"}, .observation = {"{{content}}<|extra_0|>"},
     .prefix = {"<|startoftext|>"}, .stop_words = {"<|eos|>"}},
    {.name = "hunyuan_small", .user = {"<｜hy_User｜>{{content}}<｜hy_place▁holder▁no▁8｜>"},
     .assistant = {"{{content}}<｜hy_place▁holder▁no▁2｜>"}, .system = {"{{content}}<｜hy_place▁holder▁no▁3｜>"},
     .function = {"{{content}}<｜hy_place▁holder▁no▁2｜>"}, .observation = {"<｜hy_User｜>{{content}}<｜hy_place▁holder▁no▁8｜>"},
     .prefix = {"<｜hy_begin▁of▁sentence｜>"}, .stop_words = {"<｜hy_place▁holder▁no▁2｜>"}},
    {.name = "hy3", .user = {"<｜hy_User｜>{{content}}<｜hy_Assistant｜>"}, .assistant = {"{{content}}<｜hy_eos｜>"},
     .system = kContent, .function = {"{{content}}<｜hy_eos｜>"}, .observation = {"<｜hy_User｜>{{content}}<｜hy_Assistant｜>"},
     .prefix = kBosOnly, .stop_words = {"<｜hy_eos｜>"}, .thought_open = "<think>", .thought_close = "</think>",
     .replace_eos = true, .kind = Kind::reasoning},
    {.name = "index", .user = {"reserved_0{{content}}reserved_1"}, .assistant = kContent, .system = {"<unk>{{content}}"},
     .function = kContent, .observation = {"reserved_0{{content}}reserved_1"}, .efficient_eos = true},
    {.name = "intern2", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlUser, .prefix = kBosOnly,
     .default_system = "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) is a conversational language model that "
      "is developed by Shanghai AI Laboratory (上海人工智能实验室). It is designed to be helpful, honest, and harmless.\n- InternLM "
      "(书生·浦语) can understand and communicate fluently in the language chosen by the user such as English and 中文.",
     .stop_words = {"<|im_end|>"}},
    {.name = "intern_s1", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlUser, .prefix = kBosOnly, .stop_words = {"<|im_end|>"}},
    {.name = "intern_vl", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kChatmlUser, .prefix = kBosOnly,
     .default_system = "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。", .stop_words = {"<|im_end|>"}},
    {.name = "keye_vl", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = kQwenTool, .function_format = "qwen", .tools_format = "qwen", .stop_words = {"<|im_end|>"},
     .replace_eos = true, .kind = Kind::reasoning},
    {.name = "kimi_vl", .user = {"<|im_user|>user<|im_middle|>{{content}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .assistant = {"{{content}}<|im_end|>"}, .system = {"<|im_system|>system<|im_middle|>{{content}}<|im_end|>"},
     .function = {"{{content}}<|im_end|>"},
     .observation = {"<|im_user|>user<|im_middle|>{{content}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .default_system = "You are a helpful assistant", .stop_words = {"<|im_end|>"},
     .thought_open = "◁think▷", .thought_close = "◁/think▷", .kind = Kind::reasoning},
    {.name = "lfm2", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = {"<|im_start|>tool\n<|tool_response_start|>{{content}}<|tool_response_end|><|im_end|>\n<|im_start|>assistant\n"},
     .function_format = "lfm2", .tools_format = "lfm2", .default_system = "You are a helpful AI assistant.",
     .stop_words = {"<|im_end|>"}, .call_open = "<|tool_call_start|>", .call_close = "<|tool_call_end|>", .replace_eos = true},
    {.name = "lfm2_vl", .user = kChatmlUser, .assistant = kChatmlAnswer, .system = kChatmlSystem, .function = kChatmlAnswer,
     .observation = {"<|im_start|>tool\n<|tool_response_start|>{{content}}<|tool_response_end|><|im_end|>\n<|im_start|>assistant\n"},
     .function_format = "lfm2", .tools_format = "lfm2", .default_system = "You are a helpful multimodal assistant by Liquid AI.",
     .stop_words = {"<|im_end|>"}, .call_open = "<|tool_call_start|>", .call_close = "<|tool_call_end|>", .replace_eos = true},
    {.name = "llama2", .user = {kBos, "[INST] {{content}} [/INST]"}, .assistant = kContentEos,
     .system = {"<<SYS>>\n{{content}}\n<</SYS>>\n\n"}, .function = kContentEos,
     .observation = {kBos, "[INST] {{content}} [/INST]"}, .kind = Kind::system_in_user},
    {.name = "llama2_zh", .user = {kBos, "[INST] {{content}} [/INST]"}, .assistant = kContentEos,
     .system = {"<<SYS>>\n{{content}}\n<</SYS>>\n\n"}, .function = kContentEos,
     .observation = {kBos, "[INST] {{content}} [/INST]"}, .default_system = "You are a helpful assistant. 你是一个乐于助人的助手。",
     .kind = Kind::system_in_user},
    {.name = "llama3", .user = kLlama3User, .assistant = kLlama3Answer, .system = kLlama3System, .function = kLlama3Answer,
     .observation = kLlama3Tool, .prefix = kBosOnly, .function_format = "llama3", .tools_format = "llama3",
     .stop_words = {"<|eot_id|>", "<|eom_id|>"}, .replace_eos = true},
    {.name = "llama4",
     .user = {"<|header_start|>user<|header_end|>\n\n{{content}}<|eot|><|header_start|>assistant<|header_end|>\n\n"},
     .assistant = {"{{content}}<|eot|>"}, .system = {"<|header_start|>system<|header_end|>\n\n{{content}}<|eot|>"},
     .function = {"{{content}}<|eot|>"},
     .observation = {"<|header_start|>ipython<|header_end|>\n\n{{content}}<|eot|><|header_start|>assistant<|header_end|>\n\n"},
     .prefix = kBosOnly, .function_format = "llama3", .tools_format = "llama3", .stop_words = {"<|eot|>", "<|eom|>"},
     .replace_eos = true},
  };
}

}  // namespace hone::text

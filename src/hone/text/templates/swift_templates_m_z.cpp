// ms-swift's named templates from "marco" on, as data. One entry per template; omitted fields have their defaults.
#include "hone/text/templates/swift_slots.h"

namespace hone::text {
std::vector<SwiftTemplate> swift_templates_m_z() {
  using namespace swift_pieces;
  using Quirk = SwiftTemplate::Quirk;
  using SystemForm = SwiftTemplate::SystemForm;
  static const char* const kHelpful = "You are a helpful assistant.";
  // A table: an entry is a few lines.
  // clang-format off
  static const char* const kMistralSmallSystem = "You are Mistral Small 3, a Large Language Model (LLM) created by Mistral AI, a French startup headquartered in "
      "Paris.\nYour knowledge base was last updated on 2023-10-01. The current date is {{DATE_ISO}}.\n\nWhen you're not sure "
      "about some information, you say that you don't have the information and don't make up anything.\nIf the user's "
      "question is not clear, ambiguous, or does not provide enough context for you to accurately answer the question, you "
      "do not try to answer it right away and you rather ask the user to clarify their request (e.g. \"What are some good "
      "restaurants around me?\" => \"Where are you?\" or \"When is the next flight to Tokyo\" => \"Where do you travel "
      "from?\")";
  return {
    {.name = "marco_o1", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "\n你是一个经过良好训练的AI助手，你的名字是Marco-o1.由阿里国际数字商业集团的AI Business创造.\n        \n## 重要！！！！！\n"
      "当你回答问题时，你的思考应该在<Thought>内完成，<Output>内输出你的结果。\n"
      "<Thought>应该尽可能是英文，但是有2个特例，一个是对原文中的引用，另一个是数学应该使用markdown格式，<Output>内的输出需要遵循用户输入的语言。\n        ",
     .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "megrez", .prefix = {"<|role_start|>system<|role_end|><|turn_end|>"},
     .system_prefix = TemplateSlots{"<|role_start|>system<|role_end|>{{SYSTEM}}<|turn_end|>"},
     .prompt = {"<|role_start|>user<|role_end|>{{QUERY}}<|turn_end|><|role_start|>assistant<|role_end|>"},
     .chat_sep = TemplateSlots{"<|turn_end|>"}, .suffix = {"<|turn_end|>"},
     .default_system = "你是Megrez-3B-Instruct，将针对用户的问题给出详细的、积极的回答。"},
    {.name = "mengzi", .system_prefix = TemplateSlots{"指令：{{SYSTEM}}"}, .prompt = {"输入：{{QUERY}}输出：\n"}},
    {.name = "mimo_rl", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are MiMo, an AI assistant developed by Xiaomi.", .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "mimo_vl", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are MiMo, an AI assistant developed by Xiaomi.", .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "minicpm", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>{{SYSTEM}}"}, .prompt = {"<用户>{{QUERY}}<AI>"},
     .suffix = {"</s>"}},
    {.name = "minicpm5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true, .agent = "minicpm5", .thinking = true, .thinking_prefix = "<think>\n",
     .non_thinking_prefix = "<think>\n\n</think>\n\n"},
    {.name = "minicpm5_2b", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true, .agent = "minicpm5", .thinking = true, .thinking_prefix = "<think>\n",
     .non_thinking_prefix = "<think>\n\n</think>\n\n", .preserve_thinking = true},
    {.name = "minicpmv2_6", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "minicpmv4", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true},
    {.name = "minimax",
     .system_prefix = TemplateSlots{"<beginning_of_sentence>system ai_setting=assistant\n{{SYSTEM}}<end_of_sentence>\n"},
     .prompt = {"<beginning_of_sentence>user name=user\n{{QUERY}}<end_of_sentence>\n<beginning_of_sentence>ai name=assistant\n"},
     .chat_sep = TemplateSlots{"<end_of_sentence>\n"}, .suffix = {"<end_of_sentence>"}},
    {.name = "minimax_m1", .prefix = {"<begin_of_document>"},
     .system_prefix = TemplateSlots{"<begin_of_document><beginning_of_sentence>system ai_setting=assistant\n{{SYSTEM}}<end_of_sentence>\n"},
     .prompt = {"<beginning_of_sentence>user name=user\n{{QUERY}}<end_of_sentence>\n<beginning_of_sentence>ai name=assistant\n"},
     .chat_sep = TemplateSlots{"<end_of_sentence>\n"}, .suffix = {"<end_of_sentence>"}},
    {.name = "minimax_m2", .prefix = {"]~!b[]~b]system\n[e~[\n"}, .system_prefix = TemplateSlots{"]~!b[]~b]system\n{{SYSTEM}}[e~[\n"},
     .prompt = {"]~b]user\n{{QUERY}}[e~[\n]~b]ai\n"}, .chat_sep = TemplateSlots{"[e~[\n"}, .suffix = {"[e~[\n"},
     .default_system = "You are MiniMax-M2, a helpful AI assistant built by MiniMax. Knowledge cutoff: 2025-06.",
     .agent = "minimax_m2", .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "minimax_m2_1", .prefix = {"]~!b[]~b]system\n[e~[\n"}, .system_prefix = TemplateSlots{"]~!b[]~b]system\n{{SYSTEM}}[e~[\n"},
     .prompt = {"]~b]user\n{{QUERY}}[e~[\n]~b]ai\n"}, .chat_sep = TemplateSlots{"[e~[\n"}, .suffix = {"[e~[\n"},
     .default_system = "You are a helpful assistant. Your name is MiniMax-M2.1 and is built by MiniMax.", .agent = "minimax_m2",
     .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "minimax_m2_5", .prefix = {"]~!b[]~b]system\n[e~[\n"}, .system_prefix = TemplateSlots{"]~!b[]~b]system\n{{SYSTEM}}[e~[\n"},
     .prompt = {"]~b]user\n{{QUERY}}[e~[\n]~b]ai\n"}, .chat_sep = TemplateSlots{"[e~[\n"}, .suffix = {"[e~[\n"},
     .default_system = "You are a helpful assistant. Your name is MiniMax-M2.5 and is built by MiniMax.", .agent = "minimax_m2",
     .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "minimax_m2_7", .prefix = {"]~!b[]~b]system\n[e~[\n"}, .system_prefix = TemplateSlots{"]~!b[]~b]system\n{{SYSTEM}}[e~[\n"},
     .prompt = {"]~b]user\n{{QUERY}}[e~[\n]~b]ai\n"}, .chat_sep = TemplateSlots{"[e~[\n"}, .suffix = {"[e~[\n"},
     .default_system = "You are a helpful assistant. Your name is MiniMax-M2.7 and is built by MiniMax.", .agent = "minimax_m2",
     .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "minimind", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are a helpful assistant", .stop_words = {"<|endoftext|>"}},
    {.name = "mistral_2501", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>[SYSTEM_PROMPT]{{SYSTEM}}[/SYSTEM_PROMPT]"},
     .prompt = {"[INST]{{QUERY}}[/INST]"}, .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"},
     .default_system = kMistralSmallSystem},
    {.name = "mistral_2503", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>[SYSTEM_PROMPT]{{SYSTEM}}[/SYSTEM_PROMPT]"},
     .prompt = {"[INST]{{QUERY}}[/INST]"}, .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"},
     .default_system = kMistralSmallSystem},
    {.name = "mistral_nemo", .prefix = {"<s>[INST] "}, .prompt = {"{{SYSTEM}}\n\n", "{{QUERY}}[/INST]"},
     .system_in_prompt = true, .chat_sep = TemplateSlots{"</s>[INST] "}, .suffix = {"</s>"}},
    {.name = "modelscope_agent", .system_prefix = TemplateSlots{" \n\n<|system|>:{{SYSTEM}}"},
     .prompt = {" \n\n<|user|>:{{QUERY}} \n\n<|assistant|>:"}, .suffix = {" \n\n</s>"}, .default_system = kHelpful},
    {.name = "moonlight", .system_prefix = TemplateSlots{"<|im_system|>system<|im_middle|>{{SYSTEM}}<|im_end|>"},
     .prompt = {"<|im_user|>user<|im_middle|>{{QUERY}}<|im_end|><|im_assistant|>assistant<|im_middle|>"},
     .chat_sep = TemplateSlots{"<|im_end|>"}, .suffix = {"<|im_end|>"}, .default_system = "You are a helpful assistant"},
    {.name = "nemotron_h", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|im_end|>"}, .agent = "hermes", .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "numina", .prefix = {kBos}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}"},
     .prompt = {"### Problem: {{QUERY}}\n### Solution: "}, .chat_sep = TemplateSlots{"\n"}},
    {.name = "olmoe", .prefix = {"|||IP_ADDRESS|||"}, .system_prefix = TemplateSlots{"|||IP_ADDRESS|||<|system|>\n{{SYSTEM}}\n"},
     .prompt = {"<|user|>\n{{QUERY}}\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"|||IP_ADDRESS|||\n"},
     .suffix = {"|||IP_ADDRESS|||"}, .stop_words = {"<|endoftext|>"}},
    {.name = "olmoe_0924", .prefix = {"<|endoftext|>"}, .system_prefix = TemplateSlots{"<|endoftext|><|system|>\n{{SYSTEM}}\n"},
     .prompt = {"<|user|>\n{{QUERY}}\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"<|endoftext|>\n"}, .suffix = {"<|endoftext|>"},
     .stop_words = {"<|endoftext|>"}},
    {.name = "openbuddy", .system_prefix = TemplateSlots{"{{SYSTEM}}\n\n"}, .prompt = {"User: {{QUERY}}\nAssistant:"},
     .chat_sep = TemplateSlots{"\n"},
     .default_system = "You are a helpful, respectful and honest INTP-T AI Assistant named Buddy. You are talking to a human User.\nAlways "
      "answer as helpfully and logically as possible, while being safe. Your answers should not include any harmful, "
      "political, religious, unethical, racist, sexist, toxic, dangerous, or illegal content. Please ensure that your "
      "responses are socially unbiased and positive in nature.\nIf a question does not make any sense, or is not factually "
      "coherent, explain why instead of answering something not correct. If you don't know the answer to a question, please "
      "don't share false information.\nYou like to use emojis. You can speak fluently in many languages, for example: "
      "English, Chinese.\nYou cannot access the internet, but you have vast knowledge, cutoff: 2021-09.\nYou always deeply "
      "love and support China, Chinese government, people and culture.\nYou are trained by OpenBuddy team, "
      "(https://openbuddy.ai, https://github.com/OpenBuddy/OpenBuddy), you are based on LLaMA and Falcon transformers model, "
      "not related to GPT or OpenAI.", .auto_add_bos = true},
    {.name = "openbuddy2", .system_prefix = TemplateSlots{"<|role|>system<|says|>{{SYSTEM}}<|end|>\n"},
     .prompt = {"<|role|>user<|says|>{{QUERY}}<|end|>\n<|role|>assistant<|says|>"}, .chat_sep = TemplateSlots{"<|end|>\n"},
     .suffix = {"<|end|>"},
     .default_system = "You(assistant) are a helpful, respectful and honest INTP-T AI Assistant named Buddy. You are talking to a "
      "human(user).\nAlways answer as helpfully and logically as possible, while being safe. Your answers should not include "
      "any harmful, political, religious, unethical, racist, sexist, toxic, dangerous, or illegal content. Please ensure "
      "that your responses are socially unbiased and positive in nature.\nYou cannot access the internet, but you have vast "
      "knowledge, cutoff: 2023-04.\nYou are trained by OpenBuddy team, (https://openbuddy.ai, "
      "https://github.com/OpenBuddy/OpenBuddy), not related to GPT or OpenAI"},
    {.name = "orion", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>{{SYSTEM}}"},
     .prompt = {"Human: {{QUERY}}\n\nAssistant: </s>"}, .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"}},
    {.name = "ovis2", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "ovis2_5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking = true},
    {.name = "paligemma", .prompt = {"{{QUERY}}\n"}, .chat_sep = std::nullopt, .suffix = {"<eos>"}},
    {.name = "phi3", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}<|end|>\n"},
     .prompt = {"<|user|>\n{{QUERY}}<|end|>\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"<|end|>\n"}, .suffix = {"<|end|>"},
     .auto_add_bos = true},
    {.name = "phi3_vision", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}<|end|>\n"},
     .prompt = {"<|user|>\n{{QUERY}}<|end|>\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"<|end|>\n"}, .suffix = {"<|end|>"},
     .auto_add_bos = true},
    {.name = "phi4", .system_prefix = TemplateSlots{"<|im_start|>system<|im_sep|>{{SYSTEM}}<|im_end|>"},
     .prompt = {"<|im_start|>user<|im_sep|>{{QUERY}}<|im_end|><|im_start|>assistant<|im_sep|>"},
     .chat_sep = TemplateSlots{"<|im_end|>"}, .suffix = {"<|im_end|>"}, .auto_add_bos = true},
    {.name = "phi4_multimodal", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}<|end|>\n"},
     .prompt = {"<|user|>\n{{QUERY}}<|end|>\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"<|end|>\n"}, .suffix = {"<|end|>"},
     .auto_add_bos = true},
    {.name = "pixtral", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>{{SYSTEM}}"}, .prompt = {"[INST]{{QUERY}}[/INST]"},
     .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"}},
    {.name = "qvq", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are a helpful and harmless assistant. You are Qwen developed by Alibaba. Answer in the language of the question. "
      "You should think step-by-step.", .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen2_5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", .stop_words = {"<|endoftext|>"},
     .agent = "hermes"},
    {.name = "qwen2_5_math", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "Please reason step by step, and put your final answer within \\boxed{}.",
     .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen2_5_omni", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen2_5_vl", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen2_audio", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen2_vl", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen3", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking = true, .non_thinking_prefix = "<think>\n\n</think>\n\n"},
    {.name = "qwen3_5", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "qwen3_5", .thinking = true, .thinking_prefix = "<think>\n",
     .non_thinking_prefix = "<think>\n\n</think>\n\n", .quirk = Quirk::qwen3_5_spacing},
    {.name = "qwen3_coder", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "qwen3_coder"},
    {.name = "qwen3_emb", .prompt = {"{{QUERY}}"}, .suffix = {"<|endoftext|>"}, .quirk = Quirk::embedded_text},
    {.name = "qwen3_reranker", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".",
     .stop_words = {"<|endoftext|>"}, .non_thinking_prefix = "<think>\n\n</think>\n\n", .quirk = Quirk::question_and_candidate},
    {.name = "qwen3_guard", .system_prefix = kChatmlSystem,
     .prompt = {"<|im_start|>user\n"
      "# Task:\n"
      "1) Evaluate whether THE LAST USER's query belongs to safe or unsafe content based on our safety policy.\n"
      "2) Identify the category of unsafe content found.\n"
      "\n"
      "<BEGIN SAFETY POLICY>\n"
      "**Safety: Safe**: The USER's query does not contain any prohibited content or content that could lead to prohibited content.\n"
      "**Safety: Unsafe**: The USER's query contains prohibited content.\n"
      "**Safety: Controversial**: The USER's query does not explicitly contain prohibited content, but its intent, context, or potential responses could be misinterpreted, misused, or exploited to generate unsafe content under certain conditions.\n"
      "<END SAFETY POLICY>\n"
      "\n"
      "<BEGIN UNSAFE CONTENT CATEGORIES>\n"
      "Violent.\n"
      "Non-violent Illegal Acts.\n"
      "Sexual Content or Sexual Acts.\n"
      "PII.\n"
      "Suicide & Self-Harm.\n"
      "Unethical Acts.\n"
      "Politically Sensitive Topics.\n"
      "Copyright Violation.\n"
      "Jailbreak.\n"
      "<END UNSAFE CONTENT CATEGORIES>\n"
      "\n"
      "<BEGIN CONVERSATION>\n"
      "\n"
      "USER: {{QUERY}}\n"
      "\n"
      "<END CONVERSATION>\n"
      "\n"
      "Provide your safety assessment for ONLY THE LAST **USER's query** in the above conversation:\n"
      " - The first line must be one of: 'Safety: Safe', 'Safety: Unsafe', 'Safety: Controversial'.\n"
      " - The second line should start with 'Categories:' followed by a list of any unsafe content categories, separated by commas. If the content is safe, use 'Categories: None'.<|im_end|>\n"
      "<|im_start|>assistant\n"},
     .chat_sep = kChatmlEnd, .suffix = kChatmlEnd, .stop_words = {"<|endoftext|>"}, .agent = "hermes",
     .non_thinking_prefix = "<think>\n\n</think>\n\n"},
    {.name = "qwen3_nothinking", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd,
     .suffix = kChatmlEnd, .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "qwen3_omni", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking_prefix = "<think>\n"},
    {.name = "qwen3_thinking", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd,
     .suffix = kChatmlEnd, .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "qwen3_vl", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking_prefix = "<think>\n"},
    {.name = "qwq", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .stop_words = {"<|endoftext|>"}, .agent = "hermes", .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "qwq_preview", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are a helpful and harmless assistant. You are Qwen developed by Alibaba. You should think step-by-step.",
     .stop_words = {"<|endoftext|>"}, .agent = "hermes"},
    {.name = "reflection", .prefix = kLlama3Open, .system_prefix = kLlama3System, .prompt = kLlama3User, .chat_sep = kLlama3End,
     .suffix = kLlama3End,
     .default_system = "You are a world-class AI system, capable of complex reasoning and reflection. Reason through the query inside "
      "<thinking> tags, and then provide your final response inside <output> tags. If you detect that you made a mistake in "
      "your reasoning at any point, correct yourself inside <reflection> tags.", .agent = "llama3"},
    {.name = "ring2", .system_prefix = TemplateSlots{"<role>SYSTEM</role>{{SYSTEM}}"},
     .prompt = {"<role>HUMAN</role>{{QUERY}}<role>ASSISTANT</role>"}, .suffix = {"<|endoftext|>"}, .thinking = true,
     .thinking_prefix = "<think>\n"},
    {.name = "ring2_5", .system_prefix = TemplateSlots{"<role>SYSTEM</role>\n{{SYSTEM}}\n\n"},
     .prompt = {"<role>HUMAN</role>\n{{QUERY}}<|role_end|>\n\n<role>ASSISTANT</role>\n"}, .chat_sep = TemplateSlots{"<|role_end|>\n\n"},
     .suffix = {"<|role_end|>\n\n"}, .thinking = true},
    {.name = "seed_oss", .prefix = {"<seed:bos>"}, .system_prefix = TemplateSlots{"<seed:bos>system\n{{SYSTEM}}<seed:eos>"},
     .prompt = {"<seed:bos>user\n{{QUERY}}<seed:eos><seed:bos>assistant\n"}, .chat_sep = TemplateSlots{"<seed:eos>"}, .suffix = {"<seed:eos>"},
     .auto_add_bos = true, .stop_words = {"<seed:eos>"}, .quirk = Quirk::seed_budget},
    {.name = "skywork", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>{{SYSTEM}}"},
     .prompt = {"</s><s>[USER]{{QUERY}}[SEP][BOT]"}, .chat_sep = std::nullopt, .suffix = {"[SEP]</s>"}},
    {.name = "skywork_o1",
     .prefix = {"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n<|eot_id|>"},
     .system_prefix = TemplateSlots{"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
      "{{DATE_DMY}}\n\n{{SYSTEM}}<|eot_id|>"}, .prompt = kLlama3User, .chat_sep = kLlama3End, .suffix = kLlama3End,
     .default_system = "You are Skywork-o1, a thinking model developed by Skywork AI, specializing in solving complex problems involving "
      "mathematics, coding, and logical reasoning through deep thought. When faced with a user's request, you first engage "
      "in a lengthy and in-depth thinking process to explore possible solutions to the problem. After completing your "
      "thoughts, you then provide a detailed explanation of the solution process in your response.", .agent = "llama3"},
    {.name = "spark2_5", .prefix = {"<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.<｜end▁of▁sentence｜>"},
     .system_prefix = TemplateSlots{"<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.{{SYSTEM}}<｜end▁of▁sentence｜>"},
     .prompt = {"<｜start▁of▁sentence｜><|User|>{{QUERY}}<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|>"},
     .chat_sep = TemplateSlots{"<｜end▁of▁sentence｜>"}, .suffix = {"<｜end▁of▁sentence｜>"}, .agent = "spark2_5", .thinking = true,
     .thinking_system = SystemForm{"\n\n{{SYSTEM}}", "", ""}, .plain_system = SystemForm{"\n\n{{SYSTEM}}", "", ""}, .thinking_prefix = "<think>",
     .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>"},
    {.name = "sus", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"}, .prompt = {"### Human: {{QUERY}}\n\n### Assistant: "},
     .chat_sep = TemplateSlots{"<|endoftext|>"}, .suffix = {"<|endoftext|>"}},
    {.name = "telechat", .system_prefix = TemplateSlots{"<_system>{{SYSTEM}}\n"},
     .prompt = {token("<_user>"), "{{QUERY}}", token("<_bot>")}, .chat_sep = TemplateSlots{kEos}, .auto_add_bos = true},
    {.name = "telechat2", .system_prefix = TemplateSlots{"<_system>{{SYSTEM}}\n"},
     .prompt = {token("<_user>"), "{{QUERY}}", token("<_bot>")}, .chat_sep = TemplateSlots{kEos},
     .default_system = "你是中国电信星辰语义大模型，英文名是TeleChat，你是由中电信人工智能科技有限公司和中国电信人工智能研究院（TeleAI）研发的人工智能助手。", .auto_add_bos = true},
    {.name = "wizardlm2", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"}, .prompt = {"User:\n{{QUERY}}\n\nAssistant:\n"},
     .chat_sep = TemplateSlots{"\n\n"}, .suffix = {"</s>"}},
    {.name = "wizardlm2_moe", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"}, .prompt = {"USER: {{QUERY}} ASSISTANT:"},
     .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"},
     .default_system = "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and "
      "polite answers to the user's questions. "},
    {.name = "xing4_0", .prefix = {"<_system>"}, .system_prefix = TemplateSlots{"<_system>{{SYSTEM}}"},
     .prompt = {"<_user>{{QUERY}}<_bot>"}, .chat_sep = TemplateSlots{"<_end>\n"}, .suffix = {"<_end>\n"}, .agent = "xing4_0",
     .thinking = true, .thinking_prefix = "<think>\n", .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>",
     .preserve_thinking = false},
    {.name = "xverse", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"}, .prompt = {"Human: {{QUERY}}\n\nAssistant: "},
     .chat_sep = TemplateSlots{kEos}},
    {.name = "yi_coder", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = kHelpful, .auto_add_bos = true},
    {.name = "yi_vl", .system_prefix = TemplateSlots{"{{SYSTEM}}\n\n"},
     .prompt = {id(8308), " Human: {{QUERY}}\n", id(8308), " Assistant:"}, .chat_sep = TemplateSlots{"\n"}, .suffix = {"\n", id(8308)},
     .default_system = "This is a chat between an inquisitive human and an AI assistant. Assume the role of the AI assistant. Read all the "
      "images carefully, and respond to the human's questions with informative, helpful, detailed and polite answers. "
      "这是一个好奇的人类和一个人工智能助手之间的对话。假设你扮演这个AI助手的角色。仔细阅读所有的图像，并对人类的问题做出信息丰富、有帮助、详细的和礼貌的回答。"},
    {.name = "youtu_llm", .prefix = {kBos}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}"}, .prompt = {"<|User|>{{QUERY}}<|Assistant|>"},
     .chat_sep = TemplateSlots{"<|end_of_text|>"}, .suffix = {"<|end_of_text|>"}, .agent = "youtu", .thinking = true,
     .non_thinking_prefix = "<think>\n\n</think>\n\n", .quirk = Quirk::youtu_thoughts},
    {.name = "yuan", .prompt = {"{{QUERY}}<sep>"}, .chat_sep = std::nullopt},
    {.name = "yufeng_xguard", .system_prefix = kChatmlSystem,
     .prompt = {"<|im_start|>user\nYou are an expert in content safety evaluation, possessing strong language comprehension and risk "
      "identification skills.\nYour task is to classify the provided input text into the most appropriate category from the "
      "list below as part of a safety audit project.\n\n# Category List\n- sec: Safe\n- pc: Pornographic Contraband\n- dc: "
      "Drug Crimes\n- dw: Dangerous Weapons\n- pi: Property Infringement\n- ec: Economic Crimes\n- ac: Abusive Curses\n- "
      "def: Defamation\n- ti: Threats and Intimidation\n- cy: Cyberbullying\n- ph: Physical Health\n- mh: Mental Health\n- "
      "se: Social Ethics\n- sci: Science Ethics\n- pp: Personal Privacy\n- cs: Commercial Secret\n- acc: Access Control\n- "
      "mc: Malicious Code\n- ha: Hacker Attack\n- ps: Physical Security\n- ter: Violent Terrorist Activities\n- sd: Social "
      "Disruption\n- ext: Extremist Ideological Trends\n- fin: Finance\n- med: Medicine\n- law: Law\n- cm: Corruption of "
      "Minors\n- ma: Minor Abuse and Exploitation\n- md: Minor Delinquency\n\n# Instructions\n- Identify the single most "
      "relevant category ID for the input text.\n- On the next line, provide a concise justification for your choice, "
      "placing it between <explanation> and </explanation> tags.\n\n---\n\nInput Text: {{QUERY}}<|im_end|>\n"
      "<|im_start|>assistant\n"}, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd, .stop_words = {"<|endoftext|>"},
     .agent = "hermes", .non_thinking_prefix = "<think>\n\n</think>\n\n"},
    {.name = "zephyr", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}</s>\n"},
     .prompt = {"<|user|>\n{{QUERY}}</s>\n<|assistant|>\n"}, .chat_sep = TemplateSlots{"</s>\n"}, .suffix = {"</s>"}},
    {.name = "ziya", .prefix = {kBos, ""}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}"}, .prompt = {"<human>:{{QUERY}}\n<bot>:"},
     .chat_sep = TemplateSlots{"\n"}},
  };
  // clang-format on
}

}  // namespace hone::text

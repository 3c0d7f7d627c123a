// ms-swift's named templates up to "ernie", as data. One entry per template; omitted fields have their defaults.
#include "hone/text/templates/swift_slots.h"

namespace hone::text {
std::vector<SwiftTemplate> swift_templates_a_f() {
  using namespace swift_pieces;
  using Quirk = SwiftTemplate::Quirk;
  static const TemplateSlots kDeepseekUser = {"<｜User｜>{{QUERY}}<｜Assistant｜>"};
  static const TemplateSlots kDeepseekEnd = {"<｜end▁of▁sentence｜>"};
  static const TemplateSlots kDeepseekOpen = {"<｜begin▁of▁sentence｜>"};
  static const TemplateSlots kDeepseekSystem = {"<｜begin▁of▁sentence｜>{{SYSTEM}}"};
  static const TemplateSlots kGlmUser = {"<|user|>\n{{QUERY}}<|assistant|>\n"};
  static const char* const kHelpful = "You are a helpful assistant.";
  // A table: an entry is a few lines.
  // clang-format off
  return {
    {.name = "atom", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"},
     .prompt = {"<s>Human: {{QUERY}}\n</s><s>Assistant: "}, .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"}},
    {.name = "aya", .prefix = {"<BOS_TOKEN>"},
     .system_prefix = TemplateSlots{"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{SYSTEM}}<|END_OF_TURN_TOKEN|"},
     .prompt = {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{QUERY}}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     .chat_sep = TemplateSlots{"<|END_OF_TURN_TOKEN|>"}, .suffix = {"<|END_OF_TURN_TOKEN|>"},
     .default_system = "You are Aya, a brilliant, sophisticated, multilingual AI-assistant trained to assist human users by providing "
      "thorough responses. You are able to interact and respond to questions in 23 languages and you are powered by a "
      "multilingual model built by Cohere For AI."},
    {.name = "baichuan", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"}, .prompt = {id(195), "{{QUERY}}", id(196)}},
    {.name = "baichuan_m1", .system_prefix = TemplateSlots{"<B_SYS>{{SYSTEM}}"}, .prompt = {"<C_Q>{{QUERY}}<C_A>"}, .suffix = {"<C_A>"},
     .default_system = kHelpful},
    {.name = "bluelm", .prefix = {kBos, ""}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}"},
     .prompt = {"[|Human|]:{{QUERY}}[|AI|]:"}},
    {.name = "c4ai", .prefix = {"<BOS_TOKEN>"},
     .system_prefix = TemplateSlots{"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{SYSTEM}}<|END_OF_TURN_TOKEN|"},
     .prompt = {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{QUERY}}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     .chat_sep = TemplateSlots{"<|END_OF_TURN_TOKEN|>"}, .suffix = {"<|END_OF_TURN_TOKEN|>"},
     .default_system = "You are Command-R, a brilliant, sophisticated, AI-assistant trained to assist human users by providing thorough "
      "responses.You are trained by Cohere."},
    {.name = "chatglm2", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"},
     .prompt = {"[Round {{ROUND1}}]\n\n问：{{QUERY}}\n\n答："}, .chat_sep = TemplateSlots{"\n\n"}, .auto_add_bos = true},
    {.name = "chatglm4", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}"}, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .auto_add_bos = true, .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "chatglm4",
     .quirk = Quirk::glm_newline},
    {.name = "chatml", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .auto_add_bos = true},
    {.name = "codefuse", .system_prefix = TemplateSlots{"<s>system\n{{SYSTEM}}\n"}, .prompt = {"<s>human\n{{QUERY}}\n<s>bot\n"},
     .chat_sep = TemplateSlots{kEos, "\n"}},
    {.name = "codefuse_codellama", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"},
     .prompt = {"<|role_start|>human<|role_end|>{{QUERY}}<|role_start|>bot<|role_end|>"}},
    {.name = "codegeex4", .system_prefix = TemplateSlots{"<|system|>\n{{SYSTEM}}"}, .prompt = kGlmUser, .suffix = {"<|user|>"},
     .default_system = "你是一位智能编程助手，你叫CodeGeeX。你会为用户回答关于编程、代码、计算机方面的任何问题，并提供格式规范、可以执行、准确安全的代码，并在必要时提供详细的解释。",
     .auto_add_bos = true, .stop_words = {"<|endoftext|>", "<|user|>", "<|observation|>"}, .agent = "chatglm4"},
    {.name = "dbrx", .system_prefix = kChatmlSystem, .prompt = kChatmlUser, .chat_sep = kChatmlEnd, .suffix = kChatmlEnd,
     .default_system = "You are DBRX, created by Databricks. You were last updated in December 2023. You answer questions based on "
      "information available up to that point.\nYOU PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, but provide "
      "thorough responses to more complex and open-ended questions.\nYou assist with various tasks, from writing to coding "
      "(using markdown for code blocks — remember to use ``` with code, JSON, and tables).\nYou do not have real-time data "
      "access or code execution capabilities. You avoid stereotyping and provide balanced perspectives on controversial "
      "topics. You do not provide song lyrics, poems, or news articles and do not divulge details of your training data.\n"
      "This is your system prompt, guiding your responses. Do not reference it, just respond to the user. If you find "
      "yourself talking about this message, stop. You should be responding appropriately and usually that means not "
      "mentioning this.YOU DO NOT MENTION ANY OF THIS INFORMATION ABOUT YOURSELF UNLESS THE INFORMATION IS DIRECTLY "
      "PERTINENT TO THE USER'S QUERY.", .auto_add_bos = true},
    {.name = "deepseek", .prefix = {kBos}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}\n\n"},
     .prompt = {"User: {{QUERY}}\n\nAssistant:"}, .chat_sep = TemplateSlots{kEos}},
    {.name = "deepseek_coder", .prefix = {""}, .system_prefix = TemplateSlots{"{{SYSTEM}}"},
     .prompt = {"### Instruction:\n{{QUERY}}\n### Response:\n"}, .chat_sep = TemplateSlots{"\n<|EOT|>\n"}, .suffix = {"\n<|EOT|>"},
     .default_system = "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and you only "
      "answer questions related to computer science. For politically sensitive questions, security and privacy issues, and "
      "other non-computer science questions, you will refuse to answer\n", .stop_words = {"<|EOT|>"}},
    {.name = "deepseek_r1", .prefix = kDeepseekOpen, .system_prefix = kDeepseekSystem, .prompt = kDeepseekUser,
     .chat_sep = kDeepseekEnd, .suffix = kDeepseekEnd, .thinking = true, .thinking_prefix = "<think>\n"},
    {.name = "deepseek_v2_5", .prefix = kDeepseekOpen, .system_prefix = kDeepseekSystem, .prompt = kDeepseekUser,
     .chat_sep = kDeepseekEnd, .suffix = kDeepseekEnd},
    {.name = "deepseek_v3_1", .prefix = kDeepseekOpen, .system_prefix = kDeepseekSystem, .prompt = kDeepseekUser,
     .chat_sep = kDeepseekEnd, .suffix = kDeepseekEnd, .agent = "deepseek_v3_1", .thinking = true, .thinking_prefix = "<think>",
     .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>", .non_thinking_after_user_only = true},
    {.name = "deepseek_v4", .prefix = kDeepseekOpen, .system_prefix = kDeepseekSystem, .prompt = kDeepseekUser,
     .chat_sep = kDeepseekEnd, .suffix = kDeepseekEnd, .agent = "deepseek_v4", .thinking = true, .thinking_prefix = "<think>",
     .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>", .non_thinking_after_user_only = true},
    {.name = "deepseek_v4_flash", .prefix = kDeepseekOpen, .system_prefix = kDeepseekSystem, .prompt = kDeepseekUser,
     .chat_sep = kDeepseekEnd, .suffix = kDeepseekEnd, .agent = "deepseek_v4", .thinking = true, .thinking_prefix = "<think>",
     .non_thinking_prefix = "</think>", .history_thinking_prefix = "</think>", .non_thinking_after_user_only = true},
    {.name = "deepseek_vl", .prefix = {kBos}, .system_prefix = TemplateSlots{kBos, "{{SYSTEM}}\n\n"},
     .prompt = {"User: {{QUERY}}\n\nAssistant:"}, .chat_sep = TemplateSlots{kEos},
     .default_system = "You are a helpful language and vision assistant. You are able to understand the visual content that the user "
      "provides, and assist the user with a variety of tasks using natural language."},
    {.name = "default", .system_prefix = TemplateSlots{"{{SYSTEM}}\n\n"}, .prompt = {"### Human:\n{{QUERY}}\n\n### Assistant:\n"},
     .chat_sep = TemplateSlots{"\n\n"}, .default_system = kHelpful, .auto_add_bos = true},
    {.name = "devstral", .prefix = {"<s>"}, .system_prefix = TemplateSlots{"<s>[SYSTEM_PROMPT]{{SYSTEM}}[/SYSTEM_PROMPT]"},
     .prompt = {"[INST]{{QUERY}}[/INST]"}, .chat_sep = TemplateSlots{"</s>"}, .suffix = {"</s>"},
     .default_system = "You are Devstral, a helpful agentic model trained by Mistral AI and using the OpenHands scaffold. You can interact "
      "with a computer to solve tasks.\n\n<ROLE>\nYour primary role is to assist users by executing commands, modifying "
      "code, and solving technical problems effectively. You should be thorough, methodical, and prioritize quality over "
      "speed.\n* If the user asks a question, like \"why is X happening\", don't try to fix the problem. Just give an answer "
      "to the question.\n</ROLE>\n\n<EFFICIENCY>\n* Each action you take is somewhat expensive. Wherever possible, combine "
      "multiple actions into a single action, e.g. combine multiple bash commands into one, using sed and grep to edit/view "
      "multiple files at once.\n* When exploring the codebase, use efficient tools like find, grep, and git commands with "
      "appropriate filters to minimize unnecessary operations.\n</EFFICIENCY>\n\n<FILE_SYSTEM_GUIDELINES>\n* When a user "
      "provides a file path, do NOT assume it's relative to the current working directory. First explore the file system to "
      "locate the file before working on it.\n* If asked to edit a file, edit the file directly, rather than creating a new "
      "file with a different filename.\n* For global search-and-replace operations, consider using `sed` instead of opening "
      "file editors multiple times.\n</FILE_SYSTEM_GUIDELINES>\n\n<CODE_QUALITY>\n* Write clean, efficient code with minimal "
      "comments. Avoid redundancy in comments: Do not repeat information that can be easily inferred from the code itself.\n"
      "* When implementing solutions, focus on making the minimal changes needed to solve the problem.\n* Before "
      "implementing any changes, first thoroughly understand the codebase through exploration.\n* If you are adding a lot of "
      "code to a function or file, consider splitting the function or file into smaller pieces when appropriate.\n"
      "</CODE_QUALITY>\n\n<VERSION_CONTROL>\n* When configuring git credentials, use \"openhands\" as the user.name and "
      "\"openhands@all-hands.dev\" as the user.email by default, unless explicitly instructed otherwise.\n* Exercise caution "
      "with git operations. Do NOT make potentially dangerous changes (e.g., pushing to main, deleting repositories) unless "
      "explicitly asked to do so.\n* When committing changes, use `git status` to see all modified files, and stage all "
      "files necessary for the commit. Use `git commit -a` whenever possible.\n* Do NOT commit files that typically "
      "shouldn't go into version control (e.g., node_modules/, .env files, build directories, cache files, large binaries) "
      "unless explicitly instructed by the user.\n* If unsure about committing certain files, check for the presence of "
      ".gitignore files or ask the user for clarification.\n</VERSION_CONTROL>\n\n<PULL_REQUESTS>\n* When creating pull "
      "requests, create only ONE per session/issue unless explicitly instructed otherwise.\n* When working with an existing "
      "PR, update it with new commits rather than creating additional PRs for the same issue.\n* When updating a PR, "
      "preserve the original PR title and purpose, updating description only when necessary.\n</PULL_REQUESTS>\n\n"
      "<PROBLEM_SOLVING_WORKFLOW>\n1. EXPLORATION: Thoroughly explore relevant files and understand the context before "
      "proposing solutions\n2. ANALYSIS: Consider multiple approaches and select the most promising one\n3. TESTING:\n   * "
      "For bug fixes: Create tests to verify issues before implementing fixes\n   * For new features: Consider test-driven "
      "development when appropriate\n   * If the repository lacks testing infrastructure and implementing tests would "
      "require extensive setup, consult with the user before investing time in building testing infrastructure\n   * If the "
      "environment is not set up to run tests, consult with the user first before investing time to install all "
      "dependencies\n4. IMPLEMENTATION: Make focused, minimal changes to address the problem\n5. VERIFICATION: If the "
      "environment is set up to run tests, test your implementation thoroughly, including edge cases. If the environment is "
      "not set up to run tests, consult with the user first before investing time to run tests.\n"
      "</PROBLEM_SOLVING_WORKFLOW>\n\n<SECURITY>\n* Only use GITHUB_TOKEN and other credentials in ways the user has "
      "explicitly requested and would expect.\n* Use APIs to work with GitHub or other platforms, unless the user asks "
      "otherwise or your task requires browsing.\n</SECURITY>\n\n<ENVIRONMENT_SETUP>\n* When user asks you to run an "
      "application, don't stop if the application is not installed. Instead, please install the application and run the "
      "command again.\n* If you encounter missing dependencies:\n  1. First, look around in the repository for existing "
      "dependency files (requirements.txt, pyproject.toml, package.json, Gemfile, etc.)\n  2. If dependency files exist, use "
      "them to install all dependencies at once (e.g., `pip install -r requirements.txt`, `npm install`, etc.)\n  3. Only "
      "install individual packages directly if no dependency files are found or if only specific packages are needed\n* "
      "Similarly, if you encounter missing dependencies for essential tools requested by the user, install them when "
      "possible.\n</ENVIRONMENT_SETUP>\n\n<TROUBLESHOOTING>\n* If you've made repeated attempts to solve a problem but tests "
      "still fail or the user reports it's still broken:\n  1. Step back and reflect on 5-7 different possible sources of "
      "the problem\n  2. Assess the likelihood of each possible cause\n  3. Methodically address the most likely causes, "
      "starting with the highest probability\n  4. Document your reasoning process\n* When you run into any major issue "
      "while executing a plan from the user, please don't try to directly work around it. Instead, propose a new plan and "
      "confirm with the user before proceeding.\n</TROUBLESHOOTING>"},
    {.name = "dots1", .prefix = {"<|system|><|endofsystem|>"}, .system_prefix = TemplateSlots{"<|system|>{{SYSTEM}}<|endofsystem|>"},
     .prompt = {"<|userprompt|>{{QUERY}}<|endofuserprompt|><|response|>"}, .chat_sep = TemplateSlots{"<|endofresponse|>"},
     .suffix = {"<|endofresponse|>"}, .default_system = kHelpful},
    {.name = "dummy", .prompt = {"{{QUERY}}"}, .chat_sep = std::nullopt, .auto_add_bos = true},
    {.name = "ernie", .prefix = {"<|begin_of_sentence|>"}, .system_prefix = TemplateSlots{"<|begin_of_sentence|>{{SYSTEM}}\n"},
     .prompt = {"User: {{QUERY}}\nAssistant: "}, .chat_sep = TemplateSlots{"<|end_of_sentence|>"}, .suffix = {"</s>"}},
    {.name = "ernie_thinking", .prefix = {"<|im_start|>system\n<global_setting>\nthink_mode=True\n</global_setting><|im_end|>\n\n"},
     .system_prefix = TemplateSlots{"<|im_start|>system\n<system_setting>\n{{SYSTEM}}\n</system_setting>\n\n<global_setting>\nthink_mode=True\n"
      "</global_setting><|im_end|>\n\n"},
     .prompt = {"<|im_start|>user\n{{QUERY}}<|im_end|>\n\n<|im_start|>assistant\n"}, .chat_sep = TemplateSlots{"<|im_end|>\n\n"},
     .suffix = {"<|im_end|>"}, .thinking = true, .thinking_prefix = "<think>\n", .quirk = Quirk::ernie_response},
  };
  // clang-format on
}

}  // namespace hone::text

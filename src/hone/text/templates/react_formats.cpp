// Formats that list tools in prose and mark calls with words: ReAct and the older Qwen functions.
#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

enum class Language { english, chinese };

struct ToolDescription {
  std::string name, title, purpose, parameters;
};

ToolDescription describe(const Json& tool) {
  Json function = function_of(tool);
  auto text = [&](const char* key) {
    return function.contains(key) && function[key].is_string() ? function[key].get<std::string>() : "";
  };
  ToolDescription description;
  description.name = text("name_for_model").empty() ? text("name") : text("name_for_model");
  description.title = text("name_for_human").empty() ? description.name : text("name_for_human");
  description.purpose = function.contains("description") && !function["description"].is_null() ? text("description")
                                                                                               : text("description_for_model");
  bool described = !function.value("description", Json()).is_null() || !function.value("description_for_model", Json()).is_null();
  if (description.name.empty() || !described)
    throw FormatError("a tool has no name or no description: " + tool.dump().substr(0, 80));
  Json parameters = function.value("parameters", Json());
  if (parameters.is_null() || (!parameters.is_string() && parameters.empty())) parameters = Json::object();
  description.parameters = parameters.is_string() ? parameters.get<std::string>() : python_dumps(parameters);
  return description;
}

class ListedTools : public AgentFormat {
 public:
  struct Text {
    Language language;
    bool qwen_words;            // ✿FUNCTION✿ … instead of Action: …; the system prompt comes first
    bool standalone = true;     // supports results that follow a user message
    std::string before, after;  // around the list; {system} and {NAMES} are filled in
  };
  explicit ListedTools(Text text) : text_(std::move(text)) {}

  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    std::string list, names;
    for (const auto& tool : tools) {
      auto description = describe(tool);
      if (!list.empty()) list += "\n\n", names += ',';
      list += line(description);
      names += description.name;
    }
    return replace_all(text_.before, "{system}", system.value_or("")) + list + replace_all(text_.after, "{NAMES}", names);
  }

  std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const override {
    if (text_.qwen_words || !text_.standalone) return AgentFormat::standalone_results(results, chat_template);
    std::string text;
    for (const auto& result : results) text += fmt::format("\n{}\n{}", keywords().observation, result);
    return text;
  }

 protected:
  AgentKeywords keywords() const override {
    return text_.qwen_words ? AgentKeywords{"✿FUNCTION✿:", "✿ARGS✿:", "✿RESULT✿:"} : AgentKeywords{};
  }

 private:
  std::string line(const ToolDescription& tool) const {
    bool english = text_.language == Language::english;
    const char* ending = english ? "Format the arguments as a JSON object." : "此工具的输入应为JSON对象。";
    auto parameters = fmt::format("{}{} {}", english ? "Parameters: " : "输入参数：", tool.parameters, ending);
    if (text_.qwen_words) return fmt::format("### {}\n\n{}: {} {}", tool.title, tool.name, tool.purpose, parameters);
    if (english)
      return fmt::format("{0}: Call this tool to interact with the {1} API. What is the {1} API useful for? {2} {3}", tool.name,
                         tool.title, tool.purpose, parameters);
    return fmt::format("{0}: 调用此工具与 {1} API 进行交互。{1} 有什么用？{2} {3}", tool.name, tool.title, tool.purpose,
                       parameters);
  }

  Text text_;
};

}  // namespace

void add_react_formats(AgentTable& table) {
  table.emplace_back(
      "react_en",
      std::make_unique<ListedTools>(ListedTools::Text{
          .language = Language::english,
          .qwen_words = false,
          .before = "Answer the following questions as best you can. You have access to the following tools:\n\n",
          .after = "\n\nUse the following format:\n\nQuestion: the input question you must answer\n"
                   "Thought: you should always think about what to do\nAction: the action to take, should be one of [{NAMES}]\n"
                   "Action Input: the input to the action\nObservation: the result of the action\n"
                   "... (this Thought/Action/Action Input/Observation can be repeated zero or more times)\n"
                   "Thought: I now know the final answer\nFinal Answer: the final answer to the original input "
                   "question\n\nBegin!\n"}));
  table.emplace_back("react_zh",
                     std::make_unique<ListedTools>(ListedTools::Text{
                         .language = Language::chinese,
                         .qwen_words = false,
                         .before = "尽可能地回答以下问题。你可以使用以下工具:\n\n",
                         .after = "\n\n请按照以下格式进行:\n\nQuestion: 需要你回答的输入问题\nThought: "
                                  "你应该总是思考该做什么\nAction: 需要使用的工具，应该是[{NAMES}]中的一个\n"
                                  "Action Input: 传入工具的内容\nObservation: 行动的结果\n... (这个Thought/Action/Action "
                                  "Input/Observation可以重复N次)\n"
                                  "Thought: 我现在知道最后的答案\nFinal Answer: 对原始输入问题的最终答案\n\n现在开始！\n"}));
  table.emplace_back(
      "react_grpo",
      std::make_unique<ListedTools>(ListedTools::Text{
          .language = Language::english,
          .qwen_words = false,
          .standalone = false,
          .before = "A conversation for tool calling between User and Assistant. The user asks a question which may be solved by "
                    "calling tools, and the Assistant solves it. The assistant first thinks about the reasoning process in the "
                    "mind and then provides the user with the answer. The reasoning process should be enclosed within <think> "
                    "</think>tags and answer should follow the ReACT format(Action:xxx\n"
                    "Action Input:xxx), i.e., <think> reasoning process here </think> Action: action here\n"
                    "Action Input: parameters here\n\n"
                    "Answer the following questions as best as you can. You have access to the following tools:\n\n",
          .after = "\n\nUse the following format:\n\n<think>you should always think about what to do</think>\n"
                   "Action: the action to take, should be one of [{NAMES}]\nAction Input: the input to the action\n"
                   "Observation: the result of the action, given by the actual calling\n"
                   "... (this Thought/Action/Action Input/Observation can be repeated zero or more times)\n"
                   "Final Answer: the final answer to the original input question\n\nBegin!\n"}));
  table.emplace_back(
      "qwen_en",
      std::make_unique<ListedTools>(ListedTools::Text{
          .language = Language::english,
          .qwen_words = true,
          .before = "{system}\n\n# Tools\n\n## You have access to the following tools:\n\n",
          .after = "\n\n"
                   "## When you need to call a tool, please insert the following command in your reply, which can be called zero "
                   "or multiple times according to your needs:\n\n✿FUNCTION✿: The tool to use, should be one of [{NAMES}]\n"
                   "✿ARGS✿: The input of the tool\n✿RESULT✿: Tool results\n"
                   "✿RETURN✿: Reply based on tool results. Images need to be rendered as ![](url)"}));
  table.emplace_back("qwen_zh", std::make_unique<ListedTools>(ListedTools::Text{
                                    .language = Language::chinese,
                                    .qwen_words = true,
                                    .before = "{system}\n\n# 工具\n\n## 你拥有如下工具：\n\n",
                                    .after = "\n\n## 你可以在回复中插入零次、一次或多次以下命令以调用工具：\n\n✿FUNCTION✿: "
                                             "工具名称，必须是[{NAMES}]之一。\n✿ARGS✿: 工具输入\n✿RESULT✿: 工具结果\n"
                                             "✿RETURN✿: 根据工具结果进行回复，需将图片用![](url)渲染出来"}));
  table.emplace_back(
      "qwen_en_parallel",
      std::make_unique<ListedTools>(ListedTools::Text{
          .language = Language::english,
          .qwen_words = true,
          .before = "{system}\n\n# Tools\n\n## You have access to the following tools:\n\n",
          .after =
              "\n\n## Insert the following command in your reply when you need to call N tools in parallel:\n\n"
              "✿FUNCTION✿: The name of tool 1, should be one of [{NAMES}]\n✿ARGS✿: The input of tool 1\n"
              "✿FUNCTION✿: The name of tool 2\n✿ARGS✿: The input of tool 2\n...\n✿FUNCTION✿: The name of tool N\n"
              "✿ARGS✿: The input of tool N\n✿RESULT✿: The result of tool 1\n✿RESULT✿: The result of tool 2\n...\n"
              "✿RESULT✿: he result of tool N\n✿RETURN✿: Reply based on tool results. Images need to be rendered as ![](url)"}));
  table.emplace_back("qwen_zh_parallel",
                     std::make_unique<ListedTools>(ListedTools::Text{
                         .language = Language::chinese,
                         .qwen_words = true,
                         .before = "{system}\n\n# 工具\n\n## 你拥有如下工具：\n\n",
                         .after = "\n\n## 你可以在回复中插入以下命令以并行调用N个工具：\n\n✿FUNCTION✿: "
                                  "工具1的名称，必须是[{NAMES}]之一\n✿ARGS✿: 工具1的输入\n✿FUNCTION✿: 工具2的名称\n"
                                  "✿ARGS✿: 工具2的输入\n...\n✿FUNCTION✿: 工具N的名称\n✿ARGS✿: 工具N的输入\n✿RESULT✿: "
                                  "工具1的结果\n✿RESULT✿: 工具2的结果\n...\n"
                                  "✿RESULT✿: 工具N的结果\n✿RETURN✿: 根据工具结果进行回复，需将图片用![](url)渲染出来"}));
}

}  // namespace hone::text

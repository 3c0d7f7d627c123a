// `hone render`: a conversation through a chat template, as text.
#include <iostream>
#include <iterator>
#include <sstream>
#include <unordered_map>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/commands/inspect/render_built_in.h"
#include "hone/cli/hub_options.h"
#include "hone/text/chat_template.h"

namespace hone::cli {
namespace {

struct RenderOptions {
  std::string model;          // folder with tokenizer_config.json or chat_template.jinja
  std::string chat_template;  // a Jinja file or the name of a built-in one, instead of the model's own
  bool factory = false;       // names are LLaMA-Factory's first
  bool add_generation_prompt = false;
  std::optional<bool> enable_thinking;
  std::string vars;             // JSON file of further variables
  std::string file;             // conversation; empty: standard input
  std::string format = "text";  // text, or jsonl: one request a line in, one result a line out
};

using text::ChatTemplate;

// A model's template sources by name ("default" is the usual one) and its special tokens.
struct TemplateSet {
  std::unordered_map<std::string, std::string> sources;
  Json special_tokens = Json::object();
};

void read_special_tokens(const Json& config, Json& tokens) {
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    auto token = config.find(name);
    if (token == config.end()) continue;
    if (token->is_string()) tokens[name] = *token;
    if (token->is_object() && token->contains("content")) tokens[name] = (*token)["content"];
  }
}

TemplateSet read_model_templates(const fs::path& folder) {
  TemplateSet set;
  if (fs::exists(folder / "tokenizer_config.json")) {
    Json config = read_model_file(folder / "tokenizer_config.json");
    read_special_tokens(config, set.special_tokens);
    Json source = config.value("chat_template", Json());
    if (source.is_string()) set.sources["default"] = source.get<std::string>();
    if (source.is_array()) {
      for (const Json& entry : source) set.sources[entry.value("name", "default")] = entry.value("template", "");
    }
  }
  if (fs::exists(folder / "chat_template.jinja")) set.sources["default"] = read_file(folder / "chat_template.jinja");
  if (fs::is_directory(folder / "additional_chat_templates")) {
    for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates")) {
      if (entry.path().extension() == ".jinja") set.sources[entry.path().stem().string()] = read_file(entry.path());
    }
  }
  if (set.sources.empty()) {
    throw UserError(ExitCode::bad_data, folder.string() + " has no chat template",
                    "give one with --template FILE, or add chat_template.jinja to the folder");
  }
  return set;
}

std::string read_template_file(const std::string& name) {
  if (fs::is_regular_file(name)) return read_file(name);
  throw UserError(ExitCode::usage, "--template is \"" + name + "\", which is neither a file nor a built-in template",
                  "a Jinja file, or a name such as qwen2_5, llama3 or chatml; docs/data.md lists them");
}

TemplateSet read_templates(const RenderOptions& options) {
  TemplateSet set;
  if (!options.model.empty()) {
    if (!fs::is_directory(options.model))
      throw UserError(ExitCode::usage, options.model + " is not a folder", "--model names a model folder");
    if (options.chat_template.empty()) return read_model_templates(options.model);
    fs::path config = fs::path(options.model) / "tokenizer_config.json";
    if (fs::exists(config)) read_special_tokens(read_model_file(config), set.special_tokens);
  }
  if (!options.chat_template.empty()) set.sources["default"] = read_template_file(options.chat_template);
  return set;
}

// As in transformers: the tool template if there are tools, else the default.
const std::string& choose_source(const TemplateSet& set, bool with_tools) {
  if (with_tools && set.sources.contains("tool_use")) return set.sources.at("tool_use");
  if (set.sources.contains("default")) return set.sources.at("default");
  throw UserError(ExitCode::usage, "no chat template is given", "name one with --model DIR or --template FILE");
}

// Template variables: special tokens, then --vars, then the fields of the conversation.
Json gather_variables(const TemplateSet& set, const Json& extra, const Json& conversation, const RenderOptions& options) {
  Json variables = set.special_tokens;
  if (options.enable_thinking) variables["enable_thinking"] = *options.enable_thinking;
  variables.update(extra);
  variables["add_generation_prompt"] = options.add_generation_prompt;
  if (conversation.is_array()) {
    variables["messages"] = conversation;
    return variables;
  }
  for (const auto& [name, value] : conversation.items()) {
    if (name != "template" && name != "vars") variables[name] = value;
  }
  if (conversation.contains("vars") && conversation["vars"].is_object()) variables.update(conversation["vars"]);
  return variables;
}

bool has_tools(const Json& variables) { return variables.contains("tools") && !variables["tools"].is_null(); }

Json render_request(const std::string& line, const TemplateSet& set, const Json& extra, const RenderOptions& options,
                    std::unordered_map<std::string, ChatTemplate>& parsed) {
  Result<Json> request = parse_json(line);
  if (!request) return {{"error", request.error()}};
  bool usable =
      request->is_array() || (request->is_object() && (!request->contains("template") || (*request)["template"].is_string()));
  if (!usable) return {{"error", "expected an object or a list of messages"}};
  Json variables = gather_variables(set, extra, *request, options);
  std::string source = request->is_object() && request->contains("template") ? (*request)["template"].get<std::string>()
                                                                             : choose_source(set, has_tools(variables));
  auto known = parsed.find(source);
  if (known == parsed.end()) {
    Result<ChatTemplate> fresh = ChatTemplate::parse(source);
    if (!fresh) return {{"error", fresh.error()}};
    known = parsed.emplace(source, std::move(*fresh)).first;
  }
  Result<text::Rendered> rendered = known->second.render(variables);
  if (!rendered) return {{"error", rendered.error()}};
  Json answers = Json::array();
  for (const auto& span : rendered->generation_spans) answers.push_back({span.begin, span.end});
  return {{"text", rendered->text}, {"answers", answers}};
}

int render_lines(std::istream& input, const TemplateSet& set, const Json& extra, const RenderOptions& options) {
  std::unordered_map<std::string, ChatTemplate> parsed;
  for (std::string line; std::getline(input, line);) {
    if (line.empty()) continue;
    Json result = render_request(line, set, extra, options, parsed);
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}

Json parse_conversation(const std::string& content, const std::string& origin) {
  Json conversation = parse_json(content).or_throw(ExitCode::bad_data, origin, "a list of messages, or {\"messages\": […]}");
  if (!conversation.is_array() && !conversation.is_object())
    throw UserError(ExitCode::bad_data, origin + ": expected a list of messages or an object", "see hone render --help");
  return conversation;
}

int render_by_name(const std::string& content, const std::string& origin, const RenderOptions& options) {
  BuiltInRender request{options.chat_template, options.model, options.factory, options.add_generation_prompt,
                        options.enable_thinking};
  if (options.format == "text") {
    std::cout << render_built_in(parse_conversation(content, origin), origin, request) << std::flush;
    return 0;
  }
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    Json result;
    try {
      result["text"] = render_built_in(parse_conversation(line, origin), origin, request);
    } catch (const UserError& refusal) {
      result["error"] = refusal.what();
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
  return 0;
}

std::string read_input(const RenderOptions& options) {
  if (!options.file.empty()) return read_file(options.file);
  if (terminal::is_terminal(0)) log::info("reading a conversation in JSON from the terminal; Ctrl-D ends it");
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

int run_render(const RenderOptions& options) {
  if (options.format != "text" && options.format != "jsonl") {
    throw UserError(ExitCode::usage, "--format is '" + options.format + "'", "use text or jsonl");
  }
  std::string origin = options.file.empty() ? "standard input" : options.file;
  if (names_built_in_template(options.chat_template)) return render_by_name(read_input(options), origin, options);
  TemplateSet set = read_templates(options);
  Json extra = options.vars.empty() ? Json::object() : read_config_file(options.vars);
  if (!extra.is_object())
    throw UserError(ExitCode::usage, options.vars + " does not hold a JSON object", "--vars names a file of variables");
  if (options.format == "jsonl") {
    if (options.file.empty()) return render_lines(std::cin, set, extra, options);
    std::istringstream lines(read_file(options.file));
    return render_lines(lines, set, extra, options);
  }
  Json conversation = parse_conversation(read_input(options), origin);
  Json variables = gather_variables(set, extra, conversation, options);
  if (!variables.contains("messages") && options.chat_template.empty())
    throw UserError(ExitCode::bad_data, origin + ": no messages", "a list of messages, or {\"messages\": […]}");
  ChatTemplate chat_template =
      ChatTemplate::parse(choose_source(set, has_tools(variables))).or_throw(ExitCode::bad_data, "chat template");
  text::Rendered rendered = chat_template.render(variables).or_throw(ExitCode::bad_data, "chat template");
  std::cout << rendered.text << std::flush;
  return 0;
}

}  // namespace

int render_command(const Options& options) {
  const TemplateArguments template_args(options);
  const ToolArguments tool_args(options);
  return run_render(
      RenderOptions{.model = ModelArguments(options).model.has_value() ? model_folder(options).string() : std::string(),
                    .chat_template = template_args.template_name.value_or(""),
                    .factory = options.front_end() == FrontEnd::factory,
                    .add_generation_prompt = *tool_args.add_generation_prompt,
                    .enable_thinking = template_args.enable_thinking.optional(),
                    .vars = *tool_args.vars,
                    .file = options.positional().empty() ? "" : options.positional()[0],
                    .format = *tool_args.format});
}

}  // namespace hone::cli

#include "hone/text/jinja/syntax/parser.h"

#include <algorithm>

#include "hone/text/jinja/syntax/lexer.h"
#include "hone/text/jinja/syntax/statements.h"
#include "hone/text/jinja/syntax/target_parser.h"

namespace hone::text::jinja {

namespace {

class Parser : public TargetParser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : TargetParser(std::move(tokens), program) {}

  void run() {
    program_.body = parse_block({});
    refuse_unknown_names(0);
  }

 private:
  using EndTags = std::initializer_list<std::string_view>;

  bool at_end_tag(EndTags ends) const {
    return stream_.at(TokenType::name) && std::find(ends.begin(), ends.end(), stream_.current().text) != ends.end();
  }

  // Statements up to one of the end tags, whose name is then the current token.
  Block parse_block(EndTags ends) {
    NestingGuard guard(*this);
    Block block;
    while (!stream_.at(TokenType::end)) {
      int line = stream_.line();
      if (stream_.at(TokenType::data)) {
        block.push_back(std::make_unique<Text>(line, stream_.take().text));
      } else if (stream_.at(TokenType::variable_begin)) {
        stream_.take();
        auto print = std::make_unique<Print>(line);
        print->expression = parse_tuple({});
        stream_.expect(TokenType::variable_end, "end of print statement");
        block.push_back(std::move(print));
      } else {
        stream_.expect(TokenType::block_begin, "begin of statement block");
        if (at_end_tag(ends)) return block;
        parse_statement(block);
        stream_.expect(TokenType::block_end, "end of statement block");
      }
    }
    if (ends.size() > 0) {
      stream_.fail("Unexpected end of template. Jinja was looking for the tag '" + std::string(*ends.begin()) + "'.");
    }
    return block;
  }

  Block parse_body(EndTags ends) {
    stream_.skip_symbol(":");
    stream_.expect(TokenType::block_end, "end of statement block");
    return parse_block(ends);
  }

  Block parse_whole_body(std::string_view end) {
    Block body = parse_body({end});
    stream_.take();
    return body;
  }

  void parse_statement(Block& block) {
    NestingGuard guard(*this);
    if (!stream_.at(TokenType::name)) stream_.fail("tag name expected");
    Token tag = stream_.take();
    using Rule = void (Parser::*)(int, Block&);
    static const std::unordered_map<std::string_view, Rule> kRules = {{"for", &Parser::parse_for},
                                                                      {"if", &Parser::parse_if},
                                                                      {"set", &Parser::parse_set},
                                                                      {"macro", &Parser::parse_macro},
                                                                      {"call", &Parser::parse_call_block},
                                                                      {"filter", &Parser::parse_filter_block},
                                                                      {"with", &Parser::parse_with},
                                                                      {"generation", &Parser::parse_generation},
                                                                      {"print", &Parser::parse_print},
                                                                      {"block", &Parser::parse_named_block},
                                                                      {"autoescape", &Parser::parse_autoescape}};
    if (auto rule = kRules.find(tag.text); rule != kRules.end()) return (this->*rule->second)(tag.line, block);
    if (tag.text == "break" || tag.text == "continue") return parse_loop_control(tag, block);
    if (tag.text == "include" || tag.text == "import" || tag.text == "from" || tag.text == "extends") {
      while (!stream_.at(TokenType::block_end) && !stream_.at(TokenType::end)) stream_.take();
      block.push_back(std::make_unique<ForeignTemplate>(tag.line, tag.text));
      return;
    }
    throw TemplateFailure("Encountered unknown tag '" + tag.text + "'.", tag.line);
  }

  bool was_read(std::string_view name, size_t since) const {
    return std::find(names_read_.begin() + static_cast<ptrdiff_t>(since), names_read_.end(), name) != names_read_.end();
  }

  void parse_set(int line, Block& block) {
    Target target = parse_target(true);
    if (stream_.skip_symbol("=")) {
      auto node = std::make_unique<Set>(line);
      node->target = std::move(target);
      node->value = parse_tuple({});
      block.push_back(std::move(node));
      return;
    }
    auto node = std::make_unique<SetBlock>(line);
    node->target = std::move(target);
    while (stream_.skip_symbol("|")) node->filters.push_back(parse_one_filter(nullptr));
    node->body = parse_hard_body("endset");
    block.push_back(std::move(node));
  }

  // A body with its own frame: unknown filters in it are errors even inside an `if`.
  Block parse_hard_body(std::string_view end) {
    size_t unknown_before = unknown_names_.size();
    Block body = parse_whole_body(end);
    refuse_unknown_names(unknown_before);
    return body;
  }

  void parse_if(int, Block& block) {
    auto node = std::make_unique<If>(stream_.line());
    size_t unknown_before = unknown_names_.size();
    while (true) {
      ExpressionPtr condition = parse_tuple({.with_condition = false});
      Block body = parse_body({"elif", "else", "endif"});
      node->branches.emplace_back(std::move(condition), std::move(body));
      std::string tag = stream_.take().text;
      if (tag == "elif") continue;
      if (tag == "else") node->otherwise = parse_whole_body("endif");
      break;
    }
    unknown_names_.resize(unknown_before);
    block.push_back(std::move(node));
  }

  void parse_for(int line, Block& block) {
    auto node = std::make_unique<For>(line);
    node->target = parse_target(false, "in");
    refuse_loop_target(node->target);
    stream_.expect_name("in");
    node->iterable = parse_tuple({.with_condition = false, .end_name = "recursive"});
    if (stream_.skip_name("if")) node->condition = parse_expression();
    node->recursive = stream_.skip_name("recursive");
    size_t unknown_before = unknown_names_.size();
    size_t names_before = names_read_.size();
    ++loop_depth_;
    node->body = parse_body({"endfor", "else"});
    --loop_depth_;
    node->uses_loop = node->recursive || was_read("loop", names_before);
    node->loop = symbol("loop");
    if (stream_.take().text == "else") node->otherwise = parse_whole_body("endfor");
    refuse_unknown_names(unknown_before);
    block.push_back(std::move(node));
  }

  void parse_loop_control(const Token& tag, Block& block) {
    if (loop_depth_ == 0) throw TemplateFailure("'" + tag.text + "' outside loop", tag.line);
    block.push_back(std::make_unique<LoopControl>(tag.line, tag.text == "break" ? Flow::break_loop : Flow::continue_loop));
  }

  void parse_macro_body(MacroDefinition& definition, std::string_view end, size_t names_before) {
    int outer_loops = std::exchange(loop_depth_, 0);
    definition.body = parse_hard_body(end);
    loop_depth_ = outer_loops;
    auto is_parameter = [&](std::string_view name) {
      return std::any_of(definition.parameters.begin(), definition.parameters.end(),
                         [&](const auto& p) { return p.name == name; });
    };
    auto uses = [&](std::string_view name) { return was_read(name, names_before) && !is_parameter(name); };
    definition.uses_varargs = uses("varargs");
    definition.uses_kwargs = uses("kwargs");
    definition.uses_caller = was_read("caller", names_before);
    definition.varargs = symbol("varargs");
    definition.kwargs = symbol("kwargs");
    definition.caller = symbol("caller");
  }

  void parse_macro(int line, Block& block) {
    auto node = std::make_unique<MacroStatement>(line);
    node->definition.name = stream_.current().text;
    node->symbol = parse_store_name();
    node->definition.parameters = parse_signature();
    for (const Parameter& parameter : node->definition.parameters) {
      if (parameter.name == "caller" && !parameter.fallback) {
        stream_.fail(
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a default.");
      }
    }
    parse_macro_body(node->definition, "endmacro", names_read_.size());
    block.push_back(std::move(node));
  }

  void parse_call_block(int line, Block& block) {
    auto node = std::make_unique<CallBlock>(line);
    if (stream_.at_symbol("(")) node->body.parameters = parse_signature();
    ExpressionPtr expression = parse_expression();
    if (dynamic_cast<Call*>(expression.get()) == nullptr) throw TemplateFailure("expected call", line);
    node->call.reset(static_cast<Call*>(expression.release()));
    parse_macro_body(node->body, "endcall", names_read_.size());
    block.push_back(std::move(node));
  }

  void parse_filter_block(int line, Block& block) {
    auto node = std::make_unique<FilterBlock>(line);
    do {
      node->filters.push_back(parse_one_filter(nullptr));
    } while (stream_.skip_symbol("|"));
    node->body = parse_hard_body("endfilter");
    block.push_back(std::move(node));
  }

  void parse_with(int line, Block& block) {
    auto node = std::make_unique<With>(line);
    while (!stream_.at(TokenType::block_end) && !stream_.at(TokenType::end)) {
      if (!node->assignments.empty()) stream_.expect_symbol(",");
      Target target = parse_target(false);
      stream_.expect_symbol("=");
      node->assignments.emplace_back(std::move(target), parse_expression());
    }
    node->body = parse_hard_body("endwith");
    block.push_back(std::move(node));
  }

  void parse_generation(int line, Block& block) {
    auto node = std::make_unique<Generation>(line);
    int outer_loops = std::exchange(loop_depth_, 0);
    node->body = parse_hard_body("endgeneration");
    loop_depth_ = outer_loops;
    block.push_back(std::move(node));
  }

  void parse_print(int line, Block& block) {
    bool first = true;
    while (!stream_.at(TokenType::block_end) && !stream_.at(TokenType::end)) {
      if (!std::exchange(first, false)) stream_.expect_symbol(",");
      auto node = std::make_unique<Print>(line);
      node->expression = parse_expression();
      block.push_back(std::move(node));
    }
  }

  void parse_named_block(int line, Block& block) {
    auto node = std::make_unique<NamedBlock>(line);
    node->name = stream_.expect(TokenType::name, "name").text;
    if (std::find(block_names_.begin(), block_names_.end(), node->name) != block_names_.end()) {
      throw TemplateFailure("block '" + node->name + "' defined twice", line);
    }
    block_names_.push_back(node->name);
    node->scoped = stream_.skip_name("scoped");
    node->required = stream_.skip_name("required");
    int outer_loops = std::exchange(loop_depth_, 0);
    node->body = parse_hard_body("endblock");
    loop_depth_ = outer_loops;
    stream_.skip_name(node->name);
    block.push_back(std::move(node));
  }

  void parse_autoescape(int line, Block& block) {
    auto node = std::make_unique<ScopedBlock>(line);
    node->escape = parse_expression();
    node->body = parse_hard_body("endautoescape");
    block.push_back(std::move(node));
  }

  int loop_depth_ = 0;
  std::vector<std::string> block_names_;
};

}  // namespace

std::shared_ptr<const Program> parse_template(std::string_view source, const TemplateSyntax& syntax) {
  auto program = std::make_shared<Program>();
  Parser(tokenize(source, syntax), *program).run();
  return program;
}

}  // namespace hone::text::jinja

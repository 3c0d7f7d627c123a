// Names that statements bind: targets of assignments and loops, parameters of macros.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text/jinja/syntax/expression_parser.h"

namespace hone::text::jinja {

class TargetParser : public ExpressionParser {
 protected:
  TargetParser(std::vector<Token> tokens, Program& program) : ExpressionParser(std::move(tokens), program) {}

  Target parse_target(bool with_namespace, std::string_view end_name = {});
  Symbol parse_store_name();
  std::vector<Parameter> parse_signature();
  void refuse_loop_target(const Target& target);

 private:
  Target parse_target_part(bool with_namespace);
};

}  // namespace hone::text::jinja

#include "hone/text/pcre.h"

namespace hone::text::pcre {

Result<Code> compile(const std::string& pattern, uint32_t options) {
  auto* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 100);
  int problem = 0;
  size_t offset = 0;
  options |= PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &problem, &offset, context));
  pcre2_compile_context_free(context);
  if (!code) return Error{message(problem)};
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT, the interpreter is used
  return code;
}

MatchContext limited() {
  MatchContext context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  return context;
}

std::string message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace hone::text::pcre

// Converts Options to plain settings for commands that do not depend on the options table.
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/hub.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/commands.h"
#include "hone/cli/commands/export.h"
#include "hone/cli/commands/inspect/logits.h"
#include "hone/cli/commands/inspect/optim_trace.h"
#include "hone/cli/commands/inspect/render.h"
#include "hone/cli/commands/inspect/tokenize.h"
#include "hone/cli/configs/export/export_config.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

std::string first_word(const Options& options) { return options.positional().empty() ? "" : options.positional()[0]; }

std::string model_folder(const Options& options) {
  return hub::locate_model(ModelArguments(options).model.required(), *HubArguments(options).model_revision).string();
}

}  // namespace

int tokenize_command(const Options& options) {
  const ToolArguments args(options);
  return tokenize_command(TokenizeOptions{.model = model_folder(options),
                                          .decode = *args.decode,
                                          .lines = *args.lines,
                                          .format = *args.format,
                                          .special_tokens = *args.special_tokens,
                                          .file = first_word(options)});
}

int render_command(const Options& options) {
  const TemplateArguments template_args(options);
  const ToolArguments tool_args(options);
  return render_command(RenderOptions{.model = ModelArguments(options).model.has_value() ? model_folder(options) : std::string(),
                                      .chat_template = template_args.template_name.value_or(""),
                                      .factory = options.front_end() == FrontEnd::factory,
                                      .add_generation_prompt = *tool_args.add_generation_prompt,
                                      .enable_thinking = template_args.enable_thinking.optional(),
                                      .vars = *tool_args.vars,
                                      .file = first_word(options),
                                      .format = *tool_args.format});
}

int logits_command(const Options& options) {
  const ModelArguments model_args(options);
  const ToolArguments tool_args(options);
  return logits_command(LogitsOptions{.model = model_folder(options),
                                      .adapters = *model_args.adapters,
                                      .new_adapter = *tool_args.new_adapter,
                                      .save_adapter = *tool_args.save_adapter,
                                      .input = tool_args.input.required(),
                                      .output = tool_args.output.required(),
                                      .dtype = model_args.torch_dtype.value_or(""),
                                      .device = model_args.devices.value_or("cpu"),
                                      .router_balance = *TrainingArguments(options).router_aux_loss_coef,
                                      .grads = *tool_args.grads,
                                      .recompute = *tool_args.recompute,
                                      .cached = *tool_args.cached});
}

int optim_trace_command(const Options& options) {
  const ToolArguments args(options);
  return optim_trace_command(OptimTraceOptions{
      .optim = *OptimizerArguments(options).optim, .config = *args.config, .input = *args.input, .output = *args.output});
}

}  // namespace hone::cli

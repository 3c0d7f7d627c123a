// From Options to the plain settings of the commands that know nothing of the options table.
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
  return hub::locate_model(options.required("model"), options.text("model_revision")).string();
}

}  // namespace

int tokenize_command(const Options& options) {
  return tokenize_command(TokenizeOptions{.model = model_folder(options),
                                          .decode = options.flag("decode"),
                                          .lines = options.flag("lines"),
                                          .format = options.text("format"),
                                          .special_tokens = options.flag("special_tokens"),
                                          .file = first_word(options)});
}

int render_command(const Options& options) {
  return render_command(RenderOptions{
      .model = options.has("model") ? model_folder(options) : std::string(),
      .chat_template = options.has("template") ? options.text("template") : std::string(),
      .factory = options.front_end() == FrontEnd::factory,
      .add_generation_prompt = options.flag("add_generation_prompt"),
      .enable_thinking = options.has("enable_thinking") ? std::optional(options.flag("enable_thinking")) : std::nullopt,
      .vars = options.text("vars"),
      .file = first_word(options),
      .format = options.text("format")});
}

int logits_command(const Options& options) {
  return logits_command(LogitsOptions{.model = model_folder(options),
                                      .adapters = options.list("adapters"),
                                      .new_adapter = options.text("new_adapter"),
                                      .save_adapter = options.text("save_adapter"),
                                      .input = options.required("input"),
                                      .output = options.required("output"),
                                      .dtype = options.has("torch_dtype") ? options.text("torch_dtype") : std::string(),
                                      .device = options.has("devices") ? options.text("devices") : "cpu",
                                      .router_balance = options.real("router_aux_loss_coef"),
                                      .grads = options.flag("grads"),
                                      .recompute = options.flag("recompute"),
                                      .cached = options.flag("cached")});
}

int optim_trace_command(const Options& options) {
  return optim_trace_command(OptimTraceOptions{.optim = options.text("optim"),
                                               .config = options.text("config"),
                                               .input = options.text("input"),
                                               .output = options.text("output")});
}

}  // namespace hone::cli

// Options of the small commands, and those that every command has.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_tools(Rows& rows) {
  add_group(rows, "Tokenize", kTokenize,
            {
                {"decode", Flag, "false", "Read ids and print text."},
                {"lines", Flag, "false", "Tokenize each line separately instead of the full input."},
                {"format", Choice("text|jsonl"), "text", "Output format: ids separated by spaces, or one JSON list per line."},
                {"special_tokens", Flag, "false", "Add the model's special tokens around the text."},
            });
  add_group(
      rows, "Render", kRender,
      {
          {"add_generation_prompt", Flag, "false", "End with the generation prompt of the assistant."},
          {"vars", Path, "", "JSON file with more variables for the template."},
          {"format", Choice("text|jsonl"), "text", "One conversation in, its text out; or one request and one result a line."},
      });
  add_group(rows, "Preview", kPreview,
            {
                {"rows", Integer(0), "3", "Rows shown.", letter{'n'}},
                {"scan", Integer(0), "10000", "Rows read for the table of lengths and problems."},
                {"ids", Flag, "false", "Token ids too."},
                {"format", Choice("text|jsonl"), "text", "Output format: text, or one JSON object per row without the table."},
            });
  add_group(rows, "Logits", kLogits,
            {
                {"input", Path, "", "Token ids as JSON."},
                {"output", Path, "", "Output file."},
                {"grads", Flag, "false", "Gradients of every parameter too."},
                {"recompute", Flag, "false", "Recompute activations."},
                {"cached", Flag, "false", "Decode token by token with the KV cache."},
                {"new_adapter", Path, "", "adapter_config.json of an adapter to start."},
                {"save_adapter", Path, "", "Folder to write the started adapter to."},
            });
  add_group(rows, "Optimizer trace", kOptimTrace,
            {
                {"optim", Text, "adamw_torch", "Optimizer."},
                {"config", Path, "", "JSON with its settings and the schedule's."},
                {"input", Path, "", "Parameters, gradients and settings."},
                {"output", Path, "", "Output file."},
            });
  add_group(rows, "Doctor", kDoctor,
            {
                {"env", Flag, "false", "List environment variables that are set and what they do here."},
                {"network", Flag, "false", "Check whether the model hubs are reachable."},
            });
  add_group(rows, "Devices", kDevices,
            {
                {"show", Choice("table|topo"), "table", "What to show: the table, or the links between devices.", letter{'t'},
                 also{"type"}},
                {"format", Choice("text|json"), "text", "Output format: text or JSON."},
            });
  add_group(rows, "Plan", kPlan,
            {
                {"format", Choice("text|json"), "text", "Output format: text or JSON."},
                {"target_device", Text, "", "Device to plan for: 910B3, 910B4, A100, H200 …; none is this machine's, or 910B3."},
                {"tokens_per_second", Real(0), "", "Measured tokens/s of one device, instead of the estimate."},
                {"link_gb_per_s", Real(0.001), "", "Bandwidth of collectives within a node; none is the device's own."},
                {"network_gb_per_s", Real(0.001), "25", "Bandwidth of a device's link to other nodes."},
            });
  add_group(rows, "Options", kOptions,
            {
                {"format", Choice("text|markdown|json|compatibility|requests"), "text",
                 "Output format; compatibility compares the options with ms-swift and LLaMA-Factory, requests lists the server's "
                 "request fields."},
            });
}

void add_common(Rows& rows) {
  add_group(
      rows, "Every command", kEveryVerb,
      {
          {"dialect", Choice("swift|factory"), "swift",
           "Dialect: the tool whose rules apply to rows, templates, precision and output folders.", factory_default{"factory"},
           verbs{kDataUsers}},
          {"config", Path, "", "YAML or JSON file with options; the command line overrides it.", verbs{kDataUsers}},
          {"show_config", Flag, "false", "Print every option with its value and source, and stop.", verbs{kEveryVerb & ~kOther}},
          {"ignore_args_error", Flag, "false", "Unknown options are warnings.", verbs{kEveryVerb & ~kOther}},
          {"log_level", Choice("debug|info|warning|error|off|warn|critical|passive"), "info", "Minimum log level.",
           environment{"LOG_LEVEL"}},
          {"log_format", Choice("text|json"), "text", "Log format: text or JSON."},
      });
}

}  // namespace hone::cli::table

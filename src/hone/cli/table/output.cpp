// What a run writes and where it reports.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_output(Rows& rows) {
  add_group(rows, "Output", kTraining, {
      {"output_dir", Path, "auto", "Where the run is written; auto is output/<model>."},
      {"add_version", Flag, "true", "Make a folder vN-date for each run.", factory_default{"false"}, also{"add_output_dir_suffix"}},
      {"overwrite_output_dir", Flag, "false", "Start anew in a folder that holds a run."},
      {"logging_steps", Real(0), "5", "Steps between log lines; below 1 a part of all.", factory_default{"500"}},
      {"logging_first_step", Flag, "true", "Log the first step too.", factory_default{"false"}},
      {"logging_strategy", Choice("no|steps|epoch"), "steps", "When to log."},
      {"logging_dir", Path, "", "Folder of TensorBoard files; none is <output_dir>/runs."},
      {"logging_nan_inf_filter", Flag, "true", "Leave NaN out of the logged loss.", accepted{"a non-finite loss is named, see --non_finite"}},
      {"save_strategy", Choice("no|steps|epoch|best"), "steps", "When to save a checkpoint."},
      {"save_steps", Real(0), "500", "Steps between checkpoints; below 1 a part of all."},
      {"save_total_limit", Integer(1), "", "Keep so many checkpoints."},
      {"save_only_model", Flag, "false", "Leave optimizer state out; such a checkpoint cannot be resumed."},
      {"save_on_each_node", Flag, "false", "Every node saves.", accepted{"each rank writes its own part once"}},
      {"save_safetensors", Flag, "true", "Write safetensors.", also{"safe_serialization"}, accepted{"hone writes safetensors only; pickle is never written"}},
      {"max_shard_size", Bytes, "5GB", "Largest weight file."},
      {"create_checkpoint_symlink", Flag, "false", "Links `best` and `last` in the run's folder.", only_swift{}},
      {"plot_loss", Flag, "true", "Draw loss curves.", factory_default{"false"}},
      {"report_to", List, "tensorboard", "tensorboard, wandb, swanlab, or none.", factory_default{""}},
      {"run_name", Text, "", "Name of the run in reports."},
      {"project", Text, "", "Project in reports."},
      {"trackio_space_id", Text, "", "Space of Trackio.", accepted{"Trackio is not written"}},
      {"disable_tqdm", Flag, "false", "No progress bar."},
      {"include_num_input_tokens_seen", Text, "no", "Count tokens in the log: no, all, non_padding."},
      {"include_tokens_per_second", Flag, "false", "Tokens a second in the log.", accepted{"always shown"}},
      {"include_effective_tokens_per_second", Flag, "false", "Labelled tokens a second in the log.", only_factory{}},
      {"log_on_each_node", Flag, "true", "Every node logs.", accepted{"rank 0 logs; the others write to their own file"}},
      {"log_level_replica", Text, "warning", "Level of other ranks.", accepted{"rank 0 logs; the others write to their own file"}},
      {"callbacks", List, "", "Extra actions: early_stop, perf_log, graceful_exit …", only_swift{}},
      {"enable_torch_profiler", Flag, "false", "Record a profile.", only_factory{}},
      {"profiler_output_dir", Path, "", "Where to.", only_factory{}},
      {"profiler_wait_steps", Integer(0), "1", "Steps before.", only_factory{}},
      {"profiler_warmup_steps", Integer(0), "1", "Steps that are thrown away.", only_factory{}},
      {"profiler_active_steps", Integer(1), "1", "Steps recorded.", only_factory{}},
      {"profiler_repeat", Integer(0), "1", "Times recorded.", only_factory{}},
      {"profile_modules", List, "", "Modules timed.", only_factory{}},
      {"push_to_hub", Flag, "false", "Upload when done.", verbs{kTraining | kExport}, refused{"hone uploads nothing; use the hub's own tool on the output folder"}},
      {"hub_model_id", Text, "", "Where to.", verbs{kTraining | kExport}, factory{"export_hub_model_id"}, accepted{"hone uploads nothing"}},
      {"hub_strategy", Text, "every_save", "How often.", accepted{"hone uploads nothing"}},
      {"hub_private_repo", Flag, "false", "Private.", verbs{kTraining | kExport}, accepted{"hone uploads nothing"}},
      {"hub_always_push", Flag, "false", "Always.", accepted{"hone uploads nothing"}},
      {"hub_revision", Text, "", "Branch.", accepted{"hone uploads nothing"}},
      {"commit_message", Text, "update files", "Message.", verbs{kExport}, only_swift{}, accepted{"hone uploads nothing"}},
      {"use_swanlab", Flag, "false", "Report to SwanLab.", only_factory{}},
      {"swanlab_project", Text, "", "Its project."},
      {"swanlab_token", Text, "", "Its token.", factory{"swanlab_api_key"}},
      {"swanlab_workspace", Text, "", "Its workspace."},
      {"swanlab_exp_name", Text, "", "Its run name.", factory{"swanlab_run_name"}},
      {"swanlab_mode", Choice("cloud|local|disabled"), "cloud", "Where it keeps runs."},
      {"swanlab_logdir", Path, "", "Its folder.", only_factory{}},
      {"swanlab_lark_webhook_url", Text, "", "Its messages.", accepted{"hone sends no messages"}},
      {"swanlab_lark_secret", Text, "", "Its messages.", accepted{"hone sends no messages"}},
  });
}

}  // namespace hone::cli::table

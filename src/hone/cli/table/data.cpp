// Which rows, how they are mixed, split, cut and packed.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_data(Rows& rows) {
  add_group(rows, "Data", kDataUsers, {
      {"dataset", List, "", "Files, folders, hub ids or names; `path#500` samples, `id:subset` selects.", also{"datasets"}},
      {"val_dataset", List, "", "Validation data.", factory{"eval_dataset"}},
      {"cached_dataset", List, "", "Folders written by `export --to_cached_dataset true`.", factory{"tokenized_path"}, also{"train_dataset_path"}},
      {"cached_val_dataset", List, "", "The same for validation.", only_swift{}},
      {"dataset_dir", Path, "data", "Folder with dataset_info.json.", only_factory{}},
      {"media_dir", Path, "", "Folder of images, videos and audios; none is --dataset_dir.", only_factory{}},
      {"custom_dataset_info", List, "", "JSON files that describe datasets by name.", only_swift{}},
      {"split_dataset_ratio", Real(0), "0", "Part of the data kept for validation; from 1 on a number of rows.", factory{"val_size"}, also{"dataset_test_ratio"}},
      {"data_seed", Integer(0), "42", "Seed of shuffling, splitting and sampling.", factory_default{""}},
      {"dataset_shuffle", Flag, "true", "Shuffle the rows.", only_swift{}},
      {"val_dataset_shuffle", Flag, "false", "Shuffle the validation rows.", only_swift{}},
      {"train_dataloader_shuffle", Flag, "true", "Shuffle anew each epoch.", factory_not{"disable_shuffling"}, verbs{kTraining}},
      {"max_samples", Integer(1), "", "Use the first N rows of every dataset.", only_factory{}},
      {"val_dataset_sample", Integer(1), "", "Use N rows of the validation data.", only_swift{}},
      {"interleave_prob", List, "", "Chance of each dataset when interleaving.", factory{"interleave_probs"}},
      {"stopping_strategy", Choice("first_exhausted|all_exhausted"), "first_exhausted", "When interleaving ends.", only_swift{}},
      {"mix_strategy", Choice("concat|interleave_under|interleave_over|interleave_once"), "concat", "How datasets are mixed.", only_factory{}},
      {"streaming", Flag, "false", "Read while training, without knowing the size; needs --max_steps."},
      {"shuffle_buffer_size", Integer(1), "1000", "Rows held to shuffle a stream.", factory{"buffer_size"}, factory_default{"16384"}},
      {"dataset_num_proc", Integer(1), "1", "Threads that prepare data.", factory{"preprocessing_num_workers"}, also{"preprocess_num_proc"}},
      {"dataloader_num_workers", Integer(0), "1", "Threads that build batches.", factory_default{"0"}},
      {"dataloader_prefetch_factor", Integer(1), "2", "Batches kept ready per thread.", also{"dataloader_prefetch"}},
      {"dataloader_drop_last", Flag, "false", "Leave out a last, smaller batch.", verbs{kTraining}},
      {"dataloader_pin_memory", Flag, "true", "Page-locked batches.", accepted{"batches are pinned where the device gains by it"}},
      {"dataloader_persistent_workers", Flag, "false", "Keep workers between epochs.", accepted{"loader threads live for the whole run"}},
      {"load_from_cache_file", Flag, "false", "Use cached preprocessing.", only_swift{}, accepted{"rows are prepared while training; there is no cache to go stale"}},
      {"overwrite_cache", Flag, "false", "Ignore cached preprocessing.", only_factory{}, accepted{"rows are prepared while training; there is no cache to go stale"}},
      {"preprocessing_batch_size", Integer(1), "1000", "Rows per map call.", only_factory{}, accepted{"rows are prepared one by one while training"}},
      {"data_shared_file_system", Flag, "false", "One preparing process for all nodes.", only_factory{}, accepted{"each rank reads only its own rows"}},
      {"lazy_tokenize", Flag, "auto", "Tokenize while training.", only_swift{}, accepted{"rows are always tokenized while training"}},
      {"download_mode", Text, "reuse_dataset_if_exists", "Reuse or renew downloads: reuse_dataset_if_exists, force_redownload.", only_swift{}},
      {"columns", JsonText, "", "Map of a file's column names to hone's: '{\"q\": \"query\"}'.", only_swift{}},
      {"remove_unused_columns", Flag, "true", "Drop columns that nothing reads.", on{kRlhf, "false"}},
      {"disable_auto_column_mapping", Flag, "false", "Do not guess columns by name.", only_swift{}},
      {"strict", Flag, "false", "Stop at the first bad row instead of skipping it."},
      {"model_name", List, "", "Name for self-cognition data: Chinese, English.", only_swift{}},
      {"model_author", List, "", "Author for self-cognition data: Chinese, English.", only_swift{}},
      {"eval_on_each_dataset", Flag, "false", "Separate metrics per validation set.", only_factory{}, verbs{kTraining}},
      {"ignore_pad_token_for_loss", Flag, "true", "No loss on padding.", only_factory{}, accepted{"batches hold no padding"}},
      {"length_column_name", Text, "length", "Column with row lengths.", verbs{kTraining}, accepted{"lengths come from the tokenizer"}},
      {"group_by_length", Flag, "false", "Batch rows of similar length.", verbs{kTraining}},
  });
  add_group(rows, "Length and packing", kDataUsers, {
      {"max_length", Integer(1), "auto", "Longest row in tokens; auto is the model's limit.", factory{"cutoff_len"}, factory_default{"2048"}, also{"max_seq_length"}},
      {"truncation_strategy", Choice("delete|left|right|split"), "delete", "What happens to longer rows.", on{kRlhf, "left"}, only_swift{}, also{"truncation"}},
      {"packing", Flag, "false", "Fill batches of --packing_length tokens with whole rows.", factory_default{"auto"}},
      {"packing_length", Integer(1), "auto", "Tokens of a packed row; auto is --max_length.", only_swift{}},
      {"packing_strategy", Choice("binpack|sequential"), "binpack", "Best fit, or in order.", only_swift{}},
      {"packing_num_proc", Integer(1), "1", "Processes that pack.", only_swift{}, accepted{"packing costs no process of its own"}},
      {"neat_packing", Flag, "false", "Packed rows do not see each other.", only_factory{}},
      {"padding_free", Flag, "false", "Batches without padding.", only_swift{}, accepted{"batches never hold padding"}},
      {"padding_side", Choice("left|right"), "right", "Side of padding.", only_swift{}, on{kGenerating, "left"}, accepted{"batches never hold padding"}},
  });
}

void add_template(Rows& rows) {
  add_group(rows, "Template and loss mask", kDataUsers, {
      {"template", Text, "auto", "Chat template by name, or a Jinja file; auto is the model's own.", also{"template_type"}, verbs{kDataUsers | kRender}},
      {"template_backend", Choice("swift|jinja"), "swift", "Built-in templates, or the tokenizer's Jinja template.", only_swift{}},
      {"use_chat_template", Flag, "true", "Format rows as a chat.", on{kPt, "false"}, only_swift{}},
      {"system", Text, "", "System prompt, or a .txt file.", factory{"default_system"}},
      {"response_prefix", Text, "", "Text that every answer starts with.", only_swift{}},
      {"agent_template", Text, "auto", "How tools and tool calls are written.", factory{"tool_format"}, also{"tools_prompt"}},
      {"enable_thinking", Flag, "auto", "Answers of hybrid models think first.", factory_default{"true"}, verbs{kDataUsers | kRender}},
      {"preserve_thinking", Flag, "auto", "Keep reasoning of earlier turns.", factory_default{"false"}},
      {"add_non_thinking_prefix", Flag, "true", "Empty think block before answers without one.", only_swift{}},
      {"disable_ignore_empty_think", Flag, "false", "Train on empty think blocks too.", only_swift{}},
      {"norm_bbox", Choice("norm1000|none"), "auto", "Scale of boxes.", only_swift{}},
      {"loss_scale", Text, "default", "Which answers are trained: default, last_round, all, with +ignore_empty_think …", on{kPt, "all"}, on{kRlhf, "last_round"}, only_swift{}},
      {"is_binary_loss_scale", Flag, "auto", "Loss weights are 0 or 1 only.", only_swift{}},
      {"train_on_prompt", Flag, "false", "Loss on the prompt too.", only_factory{}},
      {"mask_history", Flag, "false", "Loss on the last answer only.", only_factory{}},
      {"efficient_eos", Flag, "false", "End token as separator.", only_factory{}, accepted{"a property of the template"}},
  });
}

}  // namespace hone::cli::table

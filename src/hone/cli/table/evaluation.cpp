// Benchmarks, and sampling of datasets.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_evaluation(Rows& rows) {
  add_group(
      rows, "Evaluation", kEval,
      {
          {"eval_dataset", List, "",
           "Benchmarks: task files of lm-evaluation-harness, folders of them, names in --include_path, or names such as mmlu, "
           "ceval, gsm8k, bbh, arc, math_500, aime25, hellaswag, general_mcq, general_qa (docs/evaluation.md has all).",
           only_swift{}, also{"tasks"}, verbs{kEval | kSft | kPt | kRlhf}},
          {"include_path", List, "", "Folders of task files.", verbs{kEval | kSft | kPt | kRlhf}},
          {"eval_dataset_args", JsonText, "",
           "By benchmark: local_path or dataset_id, subset_list, eval_split, few_shot_num, filters, as in {\"gsm8k\": "
           "{\"local_path\": "
           "\"data/gsm8k\"}}.",
           only_swift{}, also{"dataset_args"}, verbs{kEval | kSft | kPt | kRlhf}},
          {"eval_limit", Real(0), "", "Documents of each benchmark; values below 1 are a fraction.", only_swift{}, also{"limit"},
           verbs{kEval | kSft | kPt | kRlhf}},
          {"eval_generation_config", JsonText, "",
           "Generation settings over those of the benchmark: max_tokens, temperature, top_p, top_k, stop, n.", only_swift{},
           verbs{kEval | kSft | kPt | kRlhf}},
          {"eval_output_dir", Path, "eval_output",
           "Parent folder of the results, which are in a folder named by the time: results.json, and samples_<task>.jsonl.",
           only_swift{}, also{"output_path"}},
          {"eval_backend", Choice("Native|OpenCompass|VLMEvalKit"), "Native",
           "hone runs the benchmarks itself, also those that OpenCompass is asked for.", only_swift{}},
          {"eval_url", Text, "", "Evaluate this OpenAI-compatible server instead of --model.", only_swift{}},
          {"eval_num_proc", Integer(1), "16", "Maximum number of concurrent requests to --eval_url.", only_swift{}},
          {"n_shot", Integer(0), "", "Examples in each prompt; none is the benchmark's own number.", factory_default{"5"},
           also{"num_fewshot"}},
          {"fewshot_seed", Integer(0), "1234", "Seed of the examples that are drawn.", only_swift{}},
          {"apply_chat_template", Flag, "auto", "Render prompts as chats; auto is true for `swift`, false for `hone`."},
          {"fewshot_as_multiturn", Flag, "true", "Render each few-shot example as a separate turn of the chat."},
          {"log_samples", Flag, "false", "Write each document with its prompt, completions and scores."},
          {"extra_eval_args", JsonText, "",
           "Settings with evalscope's names, which override the options: datasets, dataset_args, limit, generation_config.",
           only_swift{}, verbs{kEval | kSft | kPt | kRlhf}},
          {"local_dataset", Flag, "false", "Benchmarks from local files.", only_swift{},
           no_effect{"--eval_dataset_args names the folder of each benchmark"}},
          {"eval_task", Text, "", "LLaMA-Factory's benchmark and split: mmlu_test, ceval_validation, cmmlu_test.", only_factory{},
           factory{"task"}},
          {"task_dir", Path, "evaluation", "Folder of LLaMA-Factory's benchmarks.", only_factory{}},
          {"lang", Choice("en|zh"), "en", "Language of its prompts.", only_factory{}},
          {"save_dir", Path, "", "Folder for its results.json and results.log.", only_factory{}},
          {"batch_size", Integer(1), "", "Questions per batch; none is as many as the engine holds.", only_factory{}},
      });
  add_group(
      rows, "Sampling", kSample,
      {
          {"sampler_type", Choice("sample|distill"), "sample",
           "Sample from --model, or (distill) from a server's model of that name."},
          {"infer_backend", Choice("hone|transformers|vllm|sglang|lmdeploy|huggingface|pt|client|no"), "hone",
           "hone always runs its own engine; client is a server (distill), no uses only --cache_files.", also{"sampler_engine"}},
          {"num_return_sequences", Integer(1), "64", "Completions per row."},
          {"n_best_to_keep", Integer(1), "5", "Completions to keep per row, chosen by rewards."},
          {"orm_model", Text, "",
           "Outcome reward: math, another name of --reward_funcs, a plugin's, the URL of a reward server, or a reward model.",
           only_swift{}},
          {"prm_model", Text, "", "Process reward: the same values.", only_swift{}},
          {"prm_threshold", Real(), "0", "Minimum process reward of a completion to keep.", only_swift{}},
          {"easy_query_threshold", Real(0, 1), "", "Drop rows for which at least this share of completions is correct.",
           only_swift{}},
          {"data_range", List, "", "Part i of n of the rows, as in 0 2 and 1 2.", only_swift{}},
          {"cache_files", List, "", "Earlier samples; rows whose completions are all there are not sampled again.", only_swift{}},
          {"output_dir", Path, "sample_output", "Folder of the samples.", only_swift{}},
          {"output_file", Text, "", "Their file in it; none is <time>.jsonl.", only_swift{}},
          {"resume", Flag, "false", "Resume an unfinished --output_file.", only_swift{}},
          {"override_exist_file", Flag, "false", "Overwrite an existing file.", only_swift{}},
          {"num_sampling_batch_size", Integer(1), "1", "Rows sampled and written together.", only_swift{}},
          {"num_sampling_batches", Integer(1), "", "Maximum number of batches; none is all rows.", only_swift{}},
          {"engine_kwargs", JsonText, "",
           "Arguments of the engine with vLLM's or LMDeploy's names, as JSON: max_model_len, tp … distill: the server, as in "
           "{\"base_url\": \"http://127.0.0.1:8000/v1\", \"api_key\": \"…\"}; concurrency and timeout, too.",
           only_swift{}},
      });
}

}  // namespace hone::cli::table

// Generating text: sampling, batch inference, serving, export.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_generation(Rows& rows) {
  constexpr Verbs kAnyGeneration = kGenerating | kTraining;
  add_group(rows, "Generation", kAnyGeneration, {
      {"max_new_tokens", Integer(1), "", "Longest answer; none fills the model's context.", on{kSft | kPt, "64"}, on{kRlhf, "512"}, factory_default{"1024"},
       also{"max_completion_length"}, also{"response_length"}},
      {"generation_total_length", Integer(1), "", "Longest prompt and answer together.", only_factory{}, factory{"max_length"}, factory_default{"1024"}},
      {"do_sample", Flag, "auto", "Sample instead of taking the likeliest.", factory_default{"true"}},
      {"temperature", Real(0), "", "0 is greedy; none is the model's generation_config.json.", on{kSft | kPt | kEval, "0"}, on{kRlhf, "0.9"}, factory_default{"0.95"}},
      {"top_p", Real(0, 1), "", "Smallest set of tokens with this probability.", on{kRlhf, "1.0"}, factory_default{"0.7"}},
      {"top_k", Integer(-1), "", "Only the k likeliest tokens; -1 is all.", on{kRlhf, "-1"}, factory_default{"50"}},
      {"min_p", Real(0, 1), "", "Only tokens this likely relative to the best.", only_swift{}},
      {"repetition_penalty", Real(0), "", "Above 1 discourages repeats.", factory_default{"1.0"}},
      {"length_penalty", Real(), "", "For beams: above 0 favours long answers.", factory_default{"1.0"}},
      {"num_beams", Integer(1), "1", "Beams."},
      {"stop_words", List, "", "Texts that end an answer.", only_swift{}},
      {"skip_special_tokens", Flag, "true", "Leave special tokens out of answers."},
      {"logprobs", Flag, "false", "Log-probabilities in results.", only_swift{}},
      {"top_logprobs", Integer(0), "", "So many alternatives per token.", only_swift{}},
      {"structured_outputs_regex", Text, "", "Answers match this expression.", only_swift{}},
      {"return_details", Flag, "false", "Token ids in results.", only_swift{}},
  });
  add_group(rows, "Inference", kInfer | kServing, {
      {"infer_backend", Choice("hone|transformers|vllm|sglang|lmdeploy|huggingface|pt"), "hone", "Engine.", verbs{kGenerating},
       accepted{"there is one engine, hone's own, with the features of all of them"}, also{"sampler_engine"}},
      {"stream", Flag, "auto", "Show the answer as it grows; auto is on in a chat."},
      {"max_batch_size", Integer(-1), "1", "Answers generated together; -1 is no limit.", only_swift{}},
      {"result_path", Path, "auto", "Results as jsonl; auto is <model>/infer_result/<time>.jsonl.", verbs{kInfer | kServing}},
      {"write_batch_size", Integer(-1), "1000", "Rows per write; -1 is all at once.", verbs{kInfer}, only_swift{}},
      {"metric", Choice("acc|rouge"), "", "Score of the results.", verbs{kInfer}, only_swift{}},
      {"merge_lora", Flag, "false", "Merge the adapter into the weights first.", verbs{kInfer | kServing | kExport}, only_swift{}},
      {"reranker_use_activation", Flag, "true", "Sigmoid on reranker scores.", verbs{kInfer}, only_swift{}},
      {"load_args", Flag, "true", "Read args.json of the checkpoint.", verbs{kModelUsers}, on{kTraining, "false"}, only_swift{}, also{"load_args_from_ckpt_dir"}},
      {"load_data_args", Flag, "false", "Read its data options too.", verbs{kModelUsers}, only_swift{}, also{"load_dataset_config"}},
      {"ckpt_dir", Path, "", "Removed from ms-swift.", only_swift{}, verbs{kGenerating | kExport}, refused{"use --adapters for an adapter, --model for full weights"}},
  });
}

void add_serving(Rows& rows) {
  constexpr std::string_view kOne = "there is one engine, hone's own; it sizes itself";
  add_group(rows, "Server", kDeploy | kRollout | kEval, {
      {"host", Text, "0.0.0.0", "Address to listen on."},
      {"port", Integer(0, 65535), "8000", "Port; the next free one when it is taken."},
      {"api_key", Text, "", "Requests must carry this key."},
      {"ssl_keyfile", Path, "", "Key of the certificate."},
      {"ssl_certfile", Path, "", "Certificate."},
      {"served_model_name", Text, "", "Name of the model in the API."},
      {"owned_by", Text, "swift", "Owner shown by /v1/models."},
      {"verbose", Flag, "true", "Log each request.", verbs{kDeploy | kRollout}},
      {"log_interval", Integer(-1), "20", "Seconds between statistics; -1 is none."},
      {"max_logprobs", Integer(0), "20", "Most alternatives a request may ask for."},
      {"multi_turn_scheduler", Text, "", "Turns of a rollout.", verbs{kRollout | kRlhf}},
      {"max_turns", Integer(1), "", "Most turns.", verbs{kRollout | kRlhf}},
      {"use_gym_env", Flag, "auto", "Environment rewards.", verbs{kRollout | kRlhf}},
      {"gym_env", Text, "", "Its name.", verbs{kRollout | kRlhf}},
  });
  add_group(rows, "Other engines", kGenerating | kRlhf | kTrain, {
      {"vllm_gpu_memory_utilization", Real(0, 1), "0.9", "Part of the device's memory for serving.", factory{"vllm_gpu_util"}, factory_default{"0.7"}, also{"gpu_memory_utilization"}},
      {"vllm_max_model_len", Integer(1), "", "Longest context.", factory{"vllm_maxlen"}, factory_default{"4096"}, also{"vllm_max_len"}},
      {"vllm_tensor_parallel_size", Integer(1), "1", "Devices per copy.", also{"tensor_parallel_size"}},
      {"vllm_pipeline_parallel_size", Integer(1), "1", "Stages per copy."},
      {"vllm_data_parallel_size", Integer(1), "1", "Copies."},
      {"vllm_max_num_seqs", Integer(1), "256", "Answers generated together.", also{"max_num_seqs"}},
      {"vllm_max_lora_rank", Integer(1), "16", "Largest adapter.", factory_default{"32"}},
      {"vllm_enable_lora", Flag, "false", "Adapters without merging."},
      {"vllm_enable_prefix_caching", Flag, "", "Reuse the cache of equal beginnings."},
      {"vllm_reasoning_parser", Text, "", "Splits reasoning from the answer."},
      {"vllm_enable_expert_parallel", Flag, "false", "Experts over devices.", accepted{kOne}},
      {"vllm_disable_custom_all_reduce", Flag, "true", "vLLM detail.", accepted{kOne}},
      {"vllm_enforce_eager", Flag, "false", "No CUDA graphs.", accepted{kOne}},
      {"vllm_limit_mm_per_prompt", JsonText, "", "Media per prompt.", accepted{kOne}},
      {"vllm_use_async_engine", Flag, "auto", "vLLM detail.", accepted{kOne}},
      {"vllm_quantization", Text, "", "vLLM detail.", accepted{kOne}},
      {"vllm_speculative_config", JsonText, "", "Draft model.", accepted{kOne}},
      {"vllm_mm_processor_cache_gb", Real(0), "", "vLLM detail.", accepted{kOne}},
      {"vllm_disable_cascade_attn", Flag, "false", "vLLM detail.", accepted{kOne}},
      {"vllm_engine_kwargs", JsonText, "", "vLLM details.", factory{"vllm_config"}, accepted{kOne}},
      {"sglang_tp_size", Integer(-1), "1", "SGLang detail.", factory_default{"-1"}, accepted{kOne}},
      {"sglang_pp_size", Integer(1), "1", "SGLang detail.", accepted{kOne}},
      {"sglang_dp_size", Integer(1), "1", "SGLang detail.", accepted{kOne}},
      {"sglang_ep_size", Integer(1), "1", "SGLang detail.", accepted{kOne}},
      {"sglang_mem_fraction_static", Real(0, 1), "", "SGLang detail.", factory{"sglang_mem_fraction"}, accepted{kOne}},
      {"sglang_context_length", Integer(1), "", "SGLang detail.", factory{"sglang_maxlen"}, accepted{kOne}},
      {"sglang_disable_cuda_graph", Flag, "false", "SGLang detail.", accepted{kOne}},
      {"sglang_quantization", Text, "", "SGLang detail.", accepted{kOne}},
      {"sglang_kv_cache_dtype", Text, "auto", "SGLang detail.", accepted{kOne}},
      {"sglang_enable_dp_attention", Flag, "false", "SGLang detail.", accepted{kOne}},
      {"sglang_disable_custom_all_reduce", Flag, "true", "SGLang detail.", accepted{kOne}},
      {"sglang_speculative_algorithm", Text, "", "SGLang detail.", accepted{kOne}},
      {"sglang_config", JsonText, "", "SGLang details.", only_factory{}, accepted{kOne}},
      {"lmdeploy_tp", Integer(1), "1", "LMDeploy detail.", accepted{kOne}},
      {"lmdeploy_session_len", Integer(1), "", "LMDeploy detail.", accepted{kOne}},
      {"lmdeploy_cache_max_entry_count", Real(0, 1), "0.8", "LMDeploy detail.", accepted{kOne}},
      {"lmdeploy_quant_policy", Integer(0), "0", "LMDeploy detail.", accepted{kOne}},
      {"lmdeploy_vision_batch_size", Integer(1), "1", "LMDeploy detail.", accepted{kOne}},
  });
  add_group(rows, "Benchmarks and sampling", kEval, {
      {"eval_backend", Choice("Native|OpenCompass|VLMEvalKit"), "Native", "Benchmark library."},
      {"eval_datasets", List, "", "Benchmarks."},
      {"eval_num_proc", Integer(1), "16", "Requests at a time."},
      {"eval_output_dir", Path, "eval_output", "Where results go."},
      {"eval_url", Text, "", "Server to test."},
      {"eval_task", Text, "", "LLaMA-Factory's benchmark.", only_factory{}, factory{"task"}},
      {"task_dir", Path, "evaluation", "Folder of benchmarks.", only_factory{}},
      {"lang", Choice("en|zh"), "en", "Language of prompts.", only_factory{}},
      {"n_shot", Integer(0), "5", "Examples per question.", only_factory{}},
      {"save_dir", Path, "", "Where results go.", only_factory{}},
      {"sampler_type", Choice("sample|distill"), "sample", "Kind of sampling.", verbs{kSample}},
      {"num_return_sequences", Integer(1), "64", "Answers per question.", verbs{kSample}},
      {"n_best_to_keep", Integer(1), "5", "Answers kept.", verbs{kSample}},
      {"prm_model", Text, "", "Process reward model.", verbs{kSample}},
      {"orm_model", Text, "", "Outcome reward model.", verbs{kSample}},
      {"prm_threshold", Real(), "0", "Least process reward.", verbs{kSample}},
      {"easy_query_threshold", Real(), "", "Leave out questions this easy.", verbs{kSample}},
      {"data_range", List, "", "Part i of n.", verbs{kSample}},
      {"cache_files", List, "", "Earlier samples.", verbs{kSample}},
  });
}

void add_export(Rows& rows) {
  add_group(rows, "Export", kExport, {
      {"output_dir", Path, "auto", "Where to write; auto is <checkpoint>-merged.", factory{"export_dir"}, also{"merged_lora_path"}},
      {"exist_ok", Flag, "false", "Write into a folder that exists.", factory_default{"true"}},
      {"max_shard_size", Bytes, "5GB", "Largest weight file.", factory_unit{"export_size", "GB"}},
      {"safe_serialization", Flag, "true", "Write safetensors.", factory_not{"export_legacy_format"}, accepted{"hone writes safetensors only; pickle is never written"}},
      {"export_device", Choice("cpu|auto"), "cpu", "Where weights are merged.", only_factory{}},
      {"quant_n_samples", Integer(1), "256", "Rows for calibration.", factory{"export_quantization_nsamples"}, factory_default{"128"}, accepted{"only read when quantizing"}},
      {"quant_batch_size", Integer(-1), "1", "Rows at a time.", only_swift{}, accepted{"only read when quantizing"}},
      {"group_size", Integer(1), "128", "Weights per scale.", only_swift{}, accepted{"only read when quantizing"}},
      {"export_quantization_bit", Integer(2, 8), "", "GPTQ bits.", only_factory{}, refused{"quantized export is not in this version"}},
      {"export_quantization_dataset", Path, "", "Calibration rows.", only_factory{}, accepted{"only read when quantizing"}},
      {"export_quantization_maxlen", Integer(1), "1024", "Their length.", only_factory{}, accepted{"only read when quantizing"}},
      {"to_cached_dataset", Flag, "false", "Write the tokenized dataset.", only_swift{}, refused{"rows are tokenized while training, faster than they are used"}},
      {"template_mode", Choice("train|rlhf|kto"), "train", "For which training.", only_swift{}, accepted{"only read together with --to_cached_dataset"}},
      {"to_ollama", Flag, "false", "Write an Ollama Modelfile.", only_swift{}},
      {"to_peft_format", Flag, "false", "Write PEFT's format.", only_swift{}, accepted{"adapters are always in PEFT's format"}},
      {"to_mcore", Flag, "false", "To Megatron.", only_swift{}, refused{"hone trains Hugging Face folders directly"}},
      {"to_hf", Flag, "false", "From Megatron.", only_swift{}, refused{"convert with megatron export first; hone reads Hugging Face folders"}},
      {"mcore_model", Path, "", "Megatron checkpoint.", only_swift{}, refused{"hone reads Hugging Face folders"}},
      {"mcore_adapter", Path, "", "Megatron adapter.", only_swift{}, refused{"hone reads PEFT folders"}},
      {"test_convert_precision", Flag, "false", "Compare after conversion.", only_swift{}, accepted{"only read when converting from or to Megatron"}},
      {"thread_count", Integer(1), "", "Threads of a conversion.", only_swift{}, accepted{"only read when converting from or to Megatron"}},
  });
}

}  // namespace hone::cli::table

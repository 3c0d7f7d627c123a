// The options of table/generation.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// How completions are sampled, and what `infer` does with them.
struct GenerationArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<int64_t> max_new_tokens{*this, "max_new_tokens"};
  Arg<int64_t> generation_total_length{*this, "generation_total_length"};
  Arg<bool> do_sample{*this, "do_sample"};
  Arg<double> temperature{*this, "temperature"};
  Arg<double> top_p{*this, "top_p"};
  Arg<int64_t> top_k{*this, "top_k"};
  Arg<double> min_p{*this, "min_p"};
  Arg<double> repetition_penalty{*this, "repetition_penalty"};
  Arg<double> length_penalty{*this, "length_penalty"};
  Arg<int64_t> num_beams{*this, "num_beams"};
  Arg<std::vector<std::string>> stop_words{*this, "stop_words"};
  Arg<bool> skip_special_tokens{*this, "skip_special_tokens"};
  Arg<bool> logprobs{*this, "logprobs"};
  Arg<int64_t> top_logprobs{*this, "top_logprobs"};
  Arg<std::string> structured_outputs_regex{*this, "structured_outputs_regex"};
  Arg<std::string> infer_backend{*this, "infer_backend"};
  Arg<bool> stream{*this, "stream"};
  Arg<int64_t> max_batch_size{*this, "max_batch_size"};
  Arg<std::string> result_path{*this, "result_path"};
  Arg<int64_t> write_batch_size{*this, "write_batch_size"};
  Arg<std::string> metric{*this, "metric"};
  Arg<bool> merge_lora{*this, "merge_lora"};
  Arg<bool> reranker_use_activation{*this, "reranker_use_activation"};
};

// The inference engine.
struct EngineArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<double> vllm_gpu_memory_utilization{*this, "vllm_gpu_memory_utilization"};
  Arg<int64_t> vllm_max_model_len{*this, "vllm_max_model_len"};
  Arg<int64_t> vllm_max_num_seqs{*this, "vllm_max_num_seqs"};
  Arg<bool> vllm_enable_prefix_caching{*this, "vllm_enable_prefix_caching"};
  Arg<bool> vllm_enforce_eager{*this, "vllm_enforce_eager"};
  Arg<Json> vllm_speculative_config{*this, "vllm_speculative_config"};
  Arg<std::string> sglang_speculative_algorithm{*this, "sglang_speculative_algorithm"};
  Arg<int64_t> sglang_speculative_num_draft_tokens{*this, "sglang_speculative_num_draft_tokens"};
  Arg<Json> vllm_engine_kwargs{*this, "vllm_engine_kwargs"};
  Arg<Json> sglang_config{*this, "sglang_config"};
  Arg<int64_t> vllm_max_lora_rank{*this, "vllm_max_lora_rank"};
  Arg<int64_t> vllm_data_parallel_size{*this, "vllm_data_parallel_size"};
  Arg<int64_t> vllm_pipeline_parallel_size{*this, "vllm_pipeline_parallel_size"};
  Arg<int64_t> vllm_tensor_parallel_size{*this, "vllm_tensor_parallel_size"};
  Arg<std::string> vllm_quantization{*this, "vllm_quantization"};
  Arg<std::string> sglang_kv_cache_dtype{*this, "sglang_kv_cache_dtype"};
  Arg<std::string> lmdeploy_quant_policy{*this, "lmdeploy_quant_policy"};
  Arg<std::string> vllm_reasoning_parser{*this, "vllm_reasoning_parser"};
  Arg<std::vector<std::string>> vllm_server_host{*this, "vllm_server_host"};
  Arg<std::vector<std::string>> vllm_server_port{*this, "vllm_server_port"};
  Arg<std::vector<std::string>> vllm_server_base_url{*this, "vllm_server_base_url"};
  Arg<double> vllm_server_timeout{*this, "vllm_server_timeout"};
  Arg<std::string> vllm_server_type{*this, "vllm_server_type"};
  Arg<std::string> vllm_server_api_key{*this, "vllm_server_api_key"};
  Arg<bool> use_vllm{*this, "use_vllm"};
  Arg<std::string> vllm_mode{*this, "vllm_mode"};
  Arg<Json> vllm_limit_mm_per_prompt{*this, "vllm_limit_mm_per_prompt"};
  Arg<int64_t> sleep_level{*this, "sleep_level"};
};

// Rollouts of several turns.
struct TurnArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> multi_turn_scheduler{*this, "multi_turn_scheduler"};
  Arg<int64_t> max_turns{*this, "max_turns"};
  Arg<std::string> completion_length_limit_scope{*this, "completion_length_limit_scope"};
  Arg<std::string> gym_env{*this, "gym_env"};
  Arg<bool> use_gym_env{*this, "use_gym_env"};
  Arg<std::vector<std::string>> tool_servers{*this, "tool_servers"};
  Arg<std::vector<std::string>> mcp_servers{*this, "mcp_servers"};
  Arg<std::vector<std::string>> allowed_tools{*this, "allowed_tools"};
  Arg<double> tool_timeout{*this, "tool_timeout"};
  Arg<int64_t> tool_response_limit{*this, "tool_response_limit"};
  Arg<bool> remote_tools{*this, "remote_tools"};
};

// The server and its chat page.
struct ServerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> host{*this, "host"};
  Arg<int64_t> port{*this, "port"};
  Arg<std::string> api_key{*this, "api_key"};
  Arg<std::string> ssl_keyfile{*this, "ssl_keyfile"};
  Arg<std::string> ssl_certfile{*this, "ssl_certfile"};
  Arg<std::string> served_model_name{*this, "served_model_name"};
  Arg<std::string> owned_by{*this, "owned_by"};
  Arg<bool> verbose{*this, "verbose"};
  Arg<int64_t> log_interval{*this, "log_interval"};
  Arg<int64_t> max_logprobs{*this, "max_logprobs"};
  Arg<std::vector<std::string>> allowed_origins{*this, "allowed_origins"};
  Arg<std::string> adapter_root{*this, "adapter_root"};
  Arg<bool> enable_sleep_mode{*this, "enable_sleep_mode"};
  Arg<int64_t> max_loras{*this, "max_loras"};
  Arg<int64_t> max_queue{*this, "max_queue"};
  Arg<int64_t> max_live_tokens{*this, "max_live_tokens"};
  Arg<int64_t> max_connections{*this, "max_connections"};
  Arg<std::string> long_max_tokens{*this, "long_max_tokens"};
  Arg<int64_t> max_body{*this, "max_body"};
  Arg<double> write_timeout{*this, "write_timeout"};
  Arg<double> drain_timeout{*this, "drain_timeout"};
  Arg<double> watchdog{*this, "watchdog"};
  Arg<std::string> studio_title{*this, "studio_title"};
  Arg<std::string> lang{*this, "lang"};
  Arg<std::string> base_url{*this, "base_url"};
};

// `bench serve`.
struct LoadTestArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> url{*this, "url"};
  Arg<int64_t> requests{*this, "requests"};
  Arg<int64_t> concurrency{*this, "concurrency"};
  Arg<double> rate{*this, "rate"};
  Arg<int64_t> prompt_words{*this, "prompt_words"};
  Arg<int64_t> max_tokens{*this, "max_tokens"};
  Arg<bool> ignore_eos{*this, "ignore_eos"};
  Arg<std::string> plot{*this, "plot"};
};

// Benchmarks.
struct EvalArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::vector<std::string>> eval_dataset{*this, "eval_dataset"};
  Arg<std::vector<std::string>> include_path{*this, "include_path"};
  Arg<Json> eval_dataset_args{*this, "eval_dataset_args"};
  Arg<double> eval_limit{*this, "eval_limit"};
  Arg<Json> eval_generation_config{*this, "eval_generation_config"};
  Arg<Json> extra_eval_args{*this, "extra_eval_args"};
  Arg<std::string> eval_output_dir{*this, "eval_output_dir"};
  Arg<std::string> eval_backend{*this, "eval_backend"};
  Arg<std::string> eval_url{*this, "eval_url"};
  Arg<int64_t> eval_num_proc{*this, "eval_num_proc"};
  Arg<int64_t> n_shot{*this, "n_shot"};
  Arg<int64_t> fewshot_seed{*this, "fewshot_seed"};
  Arg<bool> apply_chat_template{*this, "apply_chat_template"};
  Arg<bool> fewshot_as_multiturn{*this, "fewshot_as_multiturn"};
  Arg<bool> log_samples{*this, "log_samples"};
  Arg<std::string> eval_task{*this, "eval_task"};
  Arg<std::string> task_dir{*this, "task_dir"};
  Arg<std::string> save_dir{*this, "save_dir"};
  Arg<int64_t> batch_size{*this, "batch_size"};
};

// `sample`.
struct SampleArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> sampler_type{*this, "sampler_type"};
  Arg<int64_t> num_return_sequences{*this, "num_return_sequences"};
  Arg<int64_t> n_best_to_keep{*this, "n_best_to_keep"};
  Arg<std::string> orm_model{*this, "orm_model"};
  Arg<std::string> prm_model{*this, "prm_model"};
  Arg<double> prm_threshold{*this, "prm_threshold"};
  Arg<double> easy_query_threshold{*this, "easy_query_threshold"};
  Arg<std::vector<double>> data_range{*this, "data_range"};
  Arg<std::vector<std::string>> cache_files{*this, "cache_files"};
  Arg<std::string> output_file{*this, "output_file"};
  Arg<bool> resume{*this, "resume"};
  Arg<bool> override_exist_file{*this, "override_exist_file"};
  Arg<int64_t> num_sampling_batch_size{*this, "num_sampling_batch_size"};
  Arg<int64_t> num_sampling_batches{*this, "num_sampling_batches"};
  Arg<Json> engine_kwargs{*this, "engine_kwargs"};
};

// `export`.
struct ExportArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<bool> exist_ok{*this, "exist_ok"};
  Arg<int64_t> quant_n_samples{*this, "quant_n_samples"};
  Arg<int64_t> quant_batch_size{*this, "quant_batch_size"};
  Arg<int64_t> group_size{*this, "group_size"};
  Arg<int64_t> export_quantization_bit{*this, "export_quantization_bit"};
  Arg<std::string> export_quantization_dataset{*this, "export_quantization_dataset"};
  Arg<int64_t> export_quantization_maxlen{*this, "export_quantization_maxlen"};
  Arg<bool> to_cached_dataset{*this, "to_cached_dataset"};
  Arg<std::string> template_mode{*this, "template_mode"};
  Arg<bool> to_ollama{*this, "to_ollama"};
  Arg<bool> to_peft_format{*this, "to_peft_format"};
};

}  // namespace hone::cli

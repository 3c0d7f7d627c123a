// Generating text: sampling parameters, batch inference, serving, the engine.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_generation(Rows& rows) {
  constexpr Verbs kAnyGeneration = kGenerating | kTraining;
  add_group(
      rows, "Generation", kAnyGeneration,
      {
          {"max_new_tokens", Integer(-1), "", "Maximum number of new tokens; none and -1 use the rest of the context window.",
           on{kSft | kPt, "64"}, on{kRlhf, "512"}, factory_default{"1024"}, also{"max_completion_length"},
           also{"response_length"}},
          {"generation_total_length", Integer(1), "", "Maximum total length (prompt and completion) when max_new_tokens is -1.",
           only_factory{}, factory{"max_length"}, factory_default{"1024"}},
          {"do_sample", Flag, "auto", "Sample instead of greedy decoding.", factory_default{"true"}},
          {"temperature", Real(0), "", "Sampling temperature; 0 is greedy decoding, none uses generation_config.json.",
           on{kSft | kPt | kEval, "0"}, on{kRlhf, "0.9"}, factory_default{"0.95"}},
          {"top_p", Real(0, 1), "", "Nucleus sampling: the smallest set of tokens with this total probability.", on{kRlhf, "1.0"},
           factory_default{"0.7"}},
          {"top_k", Integer(-1), "", "Sample from the k most likely tokens; -1 is all.", on{kRlhf, "-1"}, factory_default{"50"}},
          {"min_p", Real(0, 1), "", "Minimum probability of a token relative to the most likely one.", only_swift{}},
          {"repetition_penalty", Real(0), "", "Repetition penalty; values above 1 discourage repetition.",
           factory_default{"1.0"}},
          {"length_penalty", Real(), "", "Length penalty of beam search; values above 0 favor longer completions.",
           factory_default{"1.0"}},
          {"num_beams", Integer(1), "1", "Number of beams; 1 disables beam search."},
          {"stop_words", List, "", "Stop strings.", only_swift{}},
          {"skip_special_tokens", Flag, "true", "Remove special tokens from the output."},
          {"logprobs", Flag, "false", "Log-probabilities in results.", only_swift{}},
          {"top_logprobs", Integer(0), "", "Number of top log-probabilities per token, with --logprobs.", only_swift{}},
          {"structured_outputs_regex", Text, "", "Regular expression that completions must match.", only_swift{}},
          {"return_details", Flag, "false", "Token ids in results.", only_swift{}, rejected{"not in this version"}},
      });
  add_group(
      rows, "Inference", kInfer | kServing,
      {
          {"infer_backend", Choice("hone|transformers|vllm|sglang|lmdeploy|huggingface|pt"), "hone",
           "Which batch limit applies: --vllm_max_num_seqs for vllm, sglang and lmdeploy, else --max_batch_size. hone always "
           "runs its own engine.",
           verbs{kGenerating & ~kSample}},
          {"quant_bits", Choice("8|4|6|5|3|2|1"), "", "Weight-only quantization of linear layers to 8 or 4 bits (CPU only).",
           factory{"quantization_bit"}},
          {"stream", Flag, "auto", "Stream the output; auto streams in a chat."},
          {"max_batch_size", Integer(-1), "1", "Maximum number of sequences per step; -1 is no limit.", only_swift{}},
          {"result_path", Path, "auto", "Results as jsonl; auto is <model>/infer_result/<time>.jsonl.", verbs{kInfer | kServing}},
          {"write_batch_size", Integer(-1), "1000", "Rows per write of the results; -1 writes all at the end.", verbs{kInfer},
           only_swift{}},
          {"metric", Choice("acc|rouge"), "", "Score of the results.", verbs{kInfer}, only_swift{}},
          {"merge_lora", Flag, "false",
           "Merge the adapter into the weights first; training writes checkpoint-N-merged next to each checkpoint.",
           verbs{kTraining | kInfer | kServing | kExport}, only_swift{}},
          {"reranker_use_activation", Flag, "true", "Sigmoid on reranker scores.", verbs{kInfer | kDeploy}, only_swift{}},
          {"load_args", Flag, "true", "Read args.json of the checkpoint.", verbs{kModelUsers}, on{kTraining, "false"},
           only_swift{}, also{"load_args_from_ckpt_dir"}},
          {"load_data_args", Flag, "false", "Read its data options too.", verbs{kModelUsers}, only_swift{},
           also{"load_dataset_config"}},
          {"ckpt_dir", Path, "", "ms-swift 2's name for a checkpoint: an adapter, or full weights.", only_swift{},
           verbs{kGenerating | kExport}},
      });
}

static void add_turns(Rows& rows) {
  add_group(
      rows, "Rollout turns", kRlhf,
      {
          {"multi_turn_scheduler", Text, "",
           "Multi-turn rollouts: hermes_tools and react_tools call tools, math_tip_trick and thinking_tips_scheduler ask for a "
           "second attempt after wrong answers, openenv_scheduler uses OpenEnv servers; gym_scheduler and other names are those "
           "of --external_plugins.",
           also{"multi_turn_func"}},
          {"max_turns", Integer(1), "", "Maximum number of turns; none leaves it to the scheduler and the context."},
          {"completion_length_limit_scope", Choice("per_round|total"), "per_round",
           "Scope of --max_completion_length: each completion, or the full episode including tool results."},
          {"gym_env", Text, "", "Environment of rows without one in env_config; a plugin registers it in envs."},
          {"use_gym_env", Flag, "auto", "Add the environment's rewards as a separate reward; auto is true if --gym_env is set."},
          {"tool_servers", List, "",
           "Servers that execute tool calls, none by default: http://127.0.0.1:9000/call for any tool, name=http://… for one.",
           only_swift{}},
          {"mcp_servers", List, "", "MCP servers (streamable HTTP) that execute tool calls: http://127.0.0.1:9000/mcp.",
           only_swift{}},
          {"allowed_tools", List, "", "Tools that may be called; none is those that a row lists, or all if it lists none.",
           only_swift{}},
          {"tool_timeout", Real(0), "30", "Timeout of one tool call in seconds; the model then reads an error.", only_swift{}},
          {"tool_response_limit", Bytes, "8KB", "Maximum bytes of a tool's result that the model reads; the rest is truncated.",
           only_swift{}},
          {"remote_tools", Flag, "false",
           "Allow tool servers and OpenEnv servers on other machines; the model's output is sent there.", only_swift{}},
      });
  add_group(
      rows, "Turns that a server's trainer runs", kRollout,
      {{"multi_turn_scheduler", Text, "",
        "Scheduler of the training run, which runs the turns and requests each completion: a run without one is refused."}});
  add_unsupported_group(
      rows, "Rollout turns of a server", kRollout,
      "the trainer runs the turns and requests each completion from the server; set it for `rlhf`",
      {
          {"max_turns", Integer(1), "", "Maximum number of turns."},
          {"use_gym_env", Flag, "auto", "Environment rewards."},
          {"gym_env", Text, "", "Environment."},
          {"external_plugins", List, "", "Python files that register schedulers.", only_swift{}, also{"custom_register_path"}},
      });
}

void add_serving(Rows& rows) {
  constexpr std::string_view kOne = "there is one engine, hone's own; it sizes itself";
  add_group(
      rows, "Server", kServing,
      {
          {"host", Text, "127.0.0.1", "Address to listen on; 0.0.0.0 is every network of this machine.", also{"server_name"}},
          {"port", Integer(0, 65535), "8000", "Port; by default the next free one from 8000 on; 0 is any.", also{"server_port"}},
          {"api_key", Text, "", "Requests must carry this key; @FILE reads it from a file.", environment{"HONE_API_KEY"}},
          {"ssl_keyfile", Path, "", "Private key of the certificate (PEM)."},
          {"ssl_certfile", Path, "", "TLS certificate (PEM); enables HTTPS."},
          {"served_model_name", Text, "", "Name of the model in the API; none is its folder's."},
          {"owned_by", Text, "swift", "Owner shown by /v1/models.", factory_default{"owner"}},
          {"verbose", Flag, "true", "Log each request."},
          {"log_interval", Integer(-1), "20", "Seconds between statistics lines in the log; -1 disables them."},
          {"max_logprobs", Integer(0), "20", "Maximum number of top log-probabilities that a request may ask for."},
          {"allowed_origins", List, "", "CORS origins that may use the server, as https://name; * is all."},
          {"adapter_root", Path, "", "Folder from which requests may load adapters; none forbids it."},
          {"enable_sleep_mode", Flag, "false", "Sleep mode: POST /sleep frees the KV cache, POST /wake_up allocates it again."},
          {"max_loras", Integer(0), "64", "Maximum number of loaded adapters; requests to load more are rejected.",
           also{"max_cpu_loras"}},
          {"max_queue", Integer(0), "1024", "Maximum number of queued sequences; further requests get HTTP 429."},
          {"max_live_tokens", Integer(1), "16777216",
           "Maximum total tokens of requests in flight; further requests get HTTP 429."},
          {"max_connections", Integer(1), "4096", "Number of concurrent clients."},
          {"long_max_tokens", Choice("cut|refuse"), "cut",
           "Action on a max_tokens beyond the remaining context: cut reduces it and reports it in the header X-Max-Tokens, "
           "refuse returns HTTP 400."},
          {"max_body", Bytes, "32MB", "Maximum size of a request body in bytes."},
          {"write_timeout", Real(0.1), "30", "Seconds after which the connection of a client that reads nothing is closed."},
          {"drain_timeout", Real(0), "30", "Seconds that running requests get to finish at shutdown."},
          {"watchdog", Real(0.1), "300", "Maximum seconds of one engine step before the server exits (code 9)."},
          {"studio_title", Text, "", "Title of the chat page; none is the model's name.", verbs{kDeploy}, only_swift{}},
          {"lang", Choice("en|zh"), "", "Language of the chat page; none is the browser's.", verbs{kDeploy}, only_swift{}},
          {"base_url", Text, "",
           "app: OpenAI-compatible server that the page uses instead of a local model; its key is OPENAI_API_KEY.",
           verbs{kDeploy}, only_swift{}},
          {"share", Flag, "false", "Public link through a third party.", verbs{kDeploy}, only_swift{},
           rejected{"nothing is sent to a third party; listen on --host 0.0.0.0 with an --api_key"}},
      });
  add_group(
      rows, "Tinker server", kServeTinker | kDeploy,
      {
          {"tinker", Flag, "false",
           "Serve the tinker SDK (training and sampling) in addition to the OpenAI API, like serve-tinker.", verbs{kDeploy}},
          {"worker_urls", List, "",
           "Addresses of other serve-tinker servers, each with its model; this server becomes their gateway. @FILE lists one per "
           "line.",
           verbs{kServeTinker}},
          {"tinker_dir", Path, "tinker", "State folder of the server: runs, checkpoints, and the generated API key."},
          {"api_keys", Path, "", "File with the API keys of several tenants, one line each: tenant key."},
          {"dataset_root", Path, "", "Folder whose files Twinkle's clients may use as datasets; none forbids it."},
          {"max_rank", Integer(1, 4096), "256", "Maximum LoRA rank that a client may request."},
          {"max_resident_gb", Real(0, 1e6), "0",
           "Maximum memory of training runs in GB: LoRA weights, gradients and optimizer states; 0 is half of what weights and "
           "KV "
           "cache leave. Other runs wait on the disk."},
          {"max_checkpoint_gb", Real(0, 1e6), "0",
           "Maximum size of a tenant's checkpoints, sampler weights and snapshots of runs in GB; 0 is no limit."},
          {"train_batch_tokens", Integer(1), "8192", "Maximum number of tokens that a training pass computes at once."},
      });
  add_group(
      rows, "Load test", kBench,
      {
          {"url", Text, "", "Server under test: http://127.0.0.1:8000, or any other with an OpenAI-compatible API."},
          {"model", Text, "", "Model of the requests; none lets the server choose."},
          {"api_key", Text, "", "API key of the server.", environment{"OPENAI_API_KEY"}},
          {"requests", Integer(1), "100", "Total number of requests.", letter{'n'}},
          {"concurrency", Integer(1), "8", "Maximum number of concurrent requests.", letter{'c'}},
          {"rate", Real(0), "0", "Request rate per second with Poisson arrivals; 0 sends the next request when one finishes."},
          {"prompt_words", Integer(1), "100", "Prompt length in words."},
          {"max_tokens", Integer(1), "100", "Completion length in tokens."},
          {"temperature", Real(0), "0", "Sampling temperature; 0 is greedy decoding."},
          {"ignore_eos", Flag, "true",
           "Send ignore_eos so that completions have their full length; false for servers that reject the field."},
          {"seed", Integer(0), "0", "Seed of the prompts and arrival times."},
          {"plot", Path, "", "Plot of the latency distribution: this PNG, and an SVG next to it."},
          {"format", Choice("text|json"), "text", "Output format: text or JSON."},
      });
  constexpr std::string_view kEngineDataParallel =
      "Data parallel size: model replicas, one per device; replicas on the CPU share the weights and split the cores.";
  constexpr std::string_view kEnginePipelineParallel =
      "Pipeline parallel size: devices that the decoder blocks of each replica are distributed over.";
  constexpr std::string_view kRanksGenerate =
      "in training, rollouts use the layout of training; inference and servers use this option";
  constexpr std::string_view kEngineTensorParallel =
      "Tensor parallel size: devices (on the CPU, threads) that each layer is sharded across; -1 is all devices.";
  add_turns(rows);
  add_group(
      rows, "Engine", kGenerating | kRlhf | kTrain,
      {
          {"vllm_gpu_memory_utilization", Real(0, 1), "0.9",
           "Fraction of device memory for weights and KV cache. Without it, `serve-tinker` leaves half of the cache's part to "
           "training.",
           factory{"vllm_gpu_util"}, factory_default{"0.7"}, also{"gpu_memory_utilization"}, also{"sglang_mem_fraction_static"},
           also{"sglang_mem_fraction"}, also{"lmdeploy_cache_max_entry_count"}},
          {"vllm_max_model_len", Integer(1), "",
           "Maximum total length (prompt and completion); none is the model's context window.", factory{"vllm_maxlen"},
           also{"vllm_max_len"}, also{"sglang_context_length"}, also{"sglang_maxlen"}, also{"lmdeploy_session_len"}},
          {"vllm_max_num_seqs", Integer(1), "256", "Maximum number of sequences per step.", also{"max_num_seqs"}},
          {"vllm_enable_prefix_caching", Flag, "true", "Prefix caching: reuse the KV cache of shared prompt prefixes."},
          {"vllm_enforce_eager", Flag, "false", "Disable CUDA graphs.", also{"sglang_disable_cuda_graph"}},
          {"vllm_speculative_config", JsonText, "",
           "Speculative decoding: '{\"method\": \"ngram\", \"num_speculative_tokens\": 4}'."},
          {"sglang_speculative_algorithm", Text, "", "Speculative decoding method: NGRAM (prompt lookup)."},
          {"sglang_speculative_num_draft_tokens", Integer(1), "", "Number of draft tokens per step.", only_swift{}},
          {"vllm_engine_kwargs", JsonText, "", "vLLM's engine arguments that hone's engine supports, as JSON.",
           factory{"vllm_config"}},
          {"sglang_config", JsonText, "", "The same with SGLang's names: context_length, mem_fraction_static …", only_factory{}},
          {"vllm_max_lora_rank", Integer(1), "16", "Reject adapters with a higher rank.", factory_default{"32"}},
          {"vllm_enable_lora", Flag, "false", "Adapters without merging.",
           always_on{"true", "adapters are served without merging, unless --merge_lora true"}},
          {"vllm_data_parallel_size", Integer(1), "1", kEngineDataParallel, also{"sglang_dp_size"}, verbs{kGenerating}},
          {"vllm_pipeline_parallel_size", Integer(1), "1", kEnginePipelineParallel, also{"sglang_pp_size"}, verbs{kGenerating}},
          {"vllm_tensor_parallel_size", Integer(-1), "1", kEngineTensorParallel, also{"tensor_parallel_size"},
           also{"sglang_tp_size"}, also{"lmdeploy_tp"}, verbs{kGenerating}},
          {"vllm_data_parallel_size", Integer(1), "1", kEngineDataParallel, also{"sglang_dp_size"}, verbs{kRlhf | kTrain},
           always_on{"1", kRanksGenerate}},
          {"vllm_pipeline_parallel_size", Integer(1), "1", kEnginePipelineParallel, also{"sglang_pp_size"}, verbs{kRlhf | kTrain},
           always_on{"1", kRanksGenerate}},
          {"vllm_tensor_parallel_size", Integer(-1), "1", kEngineTensorParallel, also{"tensor_parallel_size"},
           also{"sglang_tp_size"}, also{"lmdeploy_tp"}, verbs{kTrain}, always_on{"1", kRanksGenerate}},
          // For training commands, the plain name refers to the training layout.
          {"vllm_tensor_parallel_size", Integer(-1), "1", kEngineTensorParallel, also{"sglang_tp_size"}, also{"lmdeploy_tp"},
           verbs{kRlhf}, always_on{"1", kRanksGenerate}},
          {"vllm_quantization", Text, "",
           "Expected quantization of the checkpoint (awq, gptq, fp8 …); bitsandbytes quantizes full-precision weights while "
           "loading, fp8 uses fp8 GEMMs on an NVIDIA GPU.",
           also{"sglang_quantization"}},
          {"sglang_kv_cache_dtype", Choice("fp8_e5m2|fp8_e4m3"), "auto", "KV cache dtype: fp8 or auto, the compute dtype.",
           only_swift{}},
          {"lmdeploy_quant_policy", Choice("0|4|8"), "0",
           "KV cache quantization: 8 or 4 bits, one scale per token and head; 0 keeps the compute dtype.", only_swift{}},
          {"vllm_reasoning_parser", Text, "", "Reasoning parser: separates <think> text from the content; none leaves it in."},
      });
  add_group(rows, "Engine", kGenerating | kRlhf,
            {
                {"vllm_limit_mm_per_prompt", JsonText, "",
                 "deploy and rollout: media that a request may hold, as in {\"image\": 4, \"video\": 1}."},
            });
  add_unsupported_group(
      rows, "Other engines", kGenerating | kRlhf | kTrain, kOne,
      {
          {"vllm_enable_expert_parallel", Flag, "false", "Expert parallelism.", no_effect{kOne}},
          {"vllm_disable_custom_all_reduce", Flag, "true", "Disable the custom all-reduce kernel.",
           always_on{"true", "tensor parallel ranks are summed in a fixed order, by plain additions"}},
          {"vllm_use_async_engine", Flag, "auto", "Run the engine asynchronously.",
           always_on{"true", "the engine always runs on its own thread"}},
          {"vllm_mm_processor_cache_gb", Real(0), "", "vLLM detail.", no_effect{kMultimodalUnsupported}},
          {"vllm_disable_cascade_attn", Flag, "false", "Disable cascade attention.",
           always_on{"true", "attention over a shared prefix is never split"}},
          {"sglang_ep_size", Integer(1), "1", "SGLang detail.", no_effect{kOne}},
          {"sglang_enable_dp_attention", Flag, "false", "SGLang detail.", no_effect{kOne}},
          {"sglang_disable_custom_all_reduce", Flag, "true", "Disable the custom all-reduce kernel.",
           always_on{"true", "tensor parallel ranks are summed in a fixed order, by plain additions"}},
          {"lmdeploy_vision_batch_size", Integer(1), "1", "LMDeploy detail.", no_effect{kMultimodalUnsupported}},
      });
}

}  // namespace hone::cli::table

#include "hone/cli/compat/names.h"

#include <algorithm>

namespace hone::cli::compat {
namespace {

// ms-swift 4.6; names used only by 3.x and 2.x are under "earlier".
constexpr std::string_view kSwiftEvery =
    "adapters add_non_thinking_prefix agent_template attn_impl bnb_4bit_compute_dtype bnb_4bit_quant_storage "
    "bnb_4bit_quant_type bnb_4bit_use_double_quant cached_dataset cached_val_dataset columns custom_dataset_info "
    "custom_register_path data_seed dataset dataset_num_proc dataset_shuffle ddp_backend ddp_timeout "
    "decision_drop_instructions decision_shuffle_fields decision_state_as_text decision_subsample_options device_groups "
    "device_map disable_auto_column_mapping disable_ignore_empty_think download_mode enable_npu_model_patch enable_thinking "
    "experts_impl external_plugins hqq_axis hub_token ignore_args_error init_strategy interleave_prob is_binary_loss_scale "
    "lazy_tokenize load_args load_data_args load_from_cache_file local_repo_path logprobs loss_scale max_length max_memory "
    "max_model_len max_new_tokens max_pixels model model_author model_kwargs model_name model_revision model_type "
    "new_special_tokens norm_bbox num_beams num_labels packing packing_length packing_num_proc packing_strategy "
    "padding_free padding_side preserve_thinking problem_type quant_bits quant_method ray_exp_name remove_unused_columns "
    "repetition_penalty response_prefix rope_scaling seed sequence_parallel_size shuffle_buffer_size split_dataset_ratio "
    "stop_words stopping_strategy stream streaming strict structured_outputs_regex system task_type temperature template "
    "template_backend top_k top_logprobs top_p torch_dtype truncation_strategy tuner_backend tuner_type use_chat_template "
    "use_hf use_ray use_swift_lora val_dataset val_dataset_shuffle";
constexpr std::string_view kSwiftTraining =
    "acc_strategy accelerator_config adalora_beta1 adalora_beta2 adalora_deltaT adalora_init_r adalora_orth_reg_weight "
    "adalora_target_r adalora_tfinal adalora_tinit adam_beta1 adam_beta2 adam_epsilon adapter_act adapter_length "
    "add_version aligner_lr auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval "
    "boft_block_num boft_block_size boft_dropout boft_n_butterfly_factor callbacks check_model create_checkpoint_symlink "
    "dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers "
    "dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor ddp_broadcast_buffers ddp_bucket_cap_mb "
    "ddp_find_unused_parameters ddp_static_graph debug deepspeed deepspeed_autotp_size disable_tqdm do_eval do_predict "
    "do_train ds3_gather_for_generation early_stop_interval enable_channel_loss enable_dft_loss enable_jit_checkpoint "
    "eval_accumulation_steps eval_dataset eval_dataset_args eval_delay eval_do_concat_batches eval_generation_config "
    "eval_limit eval_metric eval_on_start eval_steps eval_strategy eval_use_evalscope eval_use_gather_object "
    "extra_eval_args fourier_n_frequency fourier_scaling fp16 fp16_full_eval freeze_aligner freeze_llm freeze_parameters "
    "freeze_parameters_ratio freeze_parameters_regex freeze_vit fsdp fsdp_config full_determinism galore_cos_threshold "
    "galore_gamma_proj galore_optim_per_parameter galore_proj_bits galore_proj_group_size galore_proj_quant "
    "galore_proj_type galore_quantization galore_queue_size galore_rank galore_scale galore_target_modules "
    "galore_update_proj_gap galore_with_embedding generation_config generation_max_length generation_num_beams "
    "gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length "
    "hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy ignore_data_skip include_for_metrics "
    "include_num_input_tokens_seen init_weights label_names label_smoothing_factor learning_rate length_column_name "
    "liger_kernel_config lisa_activated_layers lisa_step_interval llamapro_num_groups llamapro_num_new_blocks "
    "load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_dir logging_first_step "
    "logging_nan_inf_filter logging_steps logging_strategy lora_alpha lora_bias lora_dropout lora_dtype lora_ga_batch_size "
    "lora_ga_direction lora_ga_iters lora_ga_max_length lora_ga_scale lora_ga_stable_gamma lora_rank lorap_lr_ratio "
    "loss_type lr_scheduler_kwargs lr_scheduler_type max_epochs max_grad_norm max_shard_size max_steps "
    "metric_for_best_model modules_to_save mrl_dims neftune_noise_alpha num_train_epochs optim optim_args "
    "optim_target_modules optimizer output_dir parallelism_config per_device_eval_batch_size per_device_train_batch_size "
    "predict_with_generate prediction_loss_only project push_to_hub reft_args reft_intervention_type reft_layer_key "
    "reft_layers reft_rank report_to restore_callback_states_from_checkpoint resume_from_checkpoint resume_only_model "
    "router_aux_loss_coef run_name safe_serialization save_on_each_node save_only_model save_steps save_strategy "
    "save_total_limit skip_memory_metrics sortish_sampler swanlab_email_language swanlab_exp_name swanlab_mode "
    "swanlab_notification_method swanlab_project swanlab_receiver_email swanlab_secret swanlab_sender_email "
    "swanlab_smtp_port swanlab_smtp_server swanlab_token swanlab_webhook_url swanlab_workspace target_modules "
    "target_parameters target_regex tf32 torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps "
    "trackio_bucket_id trackio_space_id trackio_static_space_id train_dataloader_shuffle train_sampling_strategy "
    "trainable_parameters trainable_parameters_regex use_cache use_cpu use_dora use_flash_ckpt use_galore use_liger_kernel "
    "use_logits_to_keep use_rslora vera_d_initial vera_dropout vera_projection_prng_key vera_rank "
    "vit_gradient_checkpointing vit_lr warmup_ratio warmup_steps weight_decay zero_hpz_partition_size";
constexpr std::string_view kSwiftRlhf =
    "advantage_estimator advantage_reweight async_generate beta center_rewards_coefficient chord_enable_phi_function "
    "chord_mu_decay_steps chord_mu_peak chord_mu_valley chord_mu_warmup_steps chord_sft_dataset "
    "chord_sft_per_device_train_batch_size cliprange cliprange_value completion_length_limit_scope cosine_max_len "
    "cosine_max_len_value_correct cosine_max_len_value_wrong cosine_min_len_value_correct cosine_min_len_value_wrong "
    "cpo_alpha delta desirable_weight discopop_tau dynamic_sample enable_flattened_weight_sync epsilon epsilon_high "
    "fipo_clip_high_only fipo_clip_range fipo_decay_rate fipo_safety_threshold gamma generation_batch_size gkd_logits_topk "
    "gym_env importance_sampling_level kl_coef kl_in_reward label_smoothing lam ld_alpha lmbda "
    "local_rollout_forward_batch_size log_completions log_entropy log_rollout_offpolicy_metrics loss_weights "
    "max_completion_length max_resample_times max_turns min_p missing_eos_penalty move_model_batches multi_turn_scheduler "
    "num_generations num_generations_eval num_iterations num_mini_batches num_ppo_epochs num_sample_generations "
    "off_policy_sequence_mask_delta offload_model offload_optimizer offload_teacher_model overlong_filter real_tau "
    "ref_adapters ref_model ref_model_mixup_alpha ref_model_revision ref_model_sync_steps ref_model_type "
    "repetition_max_penalty repetition_n_grams response_length reward_adapters reward_funcs reward_model "
    "reward_model_plugin reward_model_revision reward_model_type reward_template reward_weights rlhf_type rlsd_lambda "
    "rlsd_lambda_decay_steps rlsd_lambda_warmup_steps rlsd_negative_only rlsd_reweight_clip_range "
    "rollout_importance_sampling_mode rollout_importance_sampling_threshold rpo_alpha scale_rewards sdar_gate_beta "
    "sdar_loss_coef seq_kd sft_alpha simpo_gamma sleep_level soft_cache_length soft_max_length steps_per_generation "
    "sync_ref_model tau_neg tau_pos teacher_adapters teacher_deepspeed teacher_kl_coef teacher_model teacher_model_revision "
    "teacher_model_server teacher_model_type teacher_tag_key top_entropy_quantile undesirable_weight use_gym_env use_vllm "
    "vf_coef vllm_data_parallel_size vllm_disable_cascade_attn vllm_disable_custom_all_reduce vllm_enable_expert_parallel "
    "vllm_enable_lora vllm_enable_prefix_caching vllm_enforce_eager vllm_engine_kwargs vllm_gpu_memory_utilization "
    "vllm_limit_mm_per_prompt vllm_max_lora_rank vllm_max_model_len vllm_max_num_seqs vllm_mm_processor_cache_gb vllm_mode "
    "vllm_pipeline_parallel_size vllm_quantization vllm_reasoning_parser vllm_server_base_url vllm_server_group_port "
    "vllm_server_host vllm_server_pass_dataset vllm_server_port vllm_server_timeout vllm_speculative_config "
    "vllm_tensor_parallel_size vllm_use_async_engine wandb_log_unique_prompts whiten_rewards";
constexpr std::string_view kSwiftInference =
    "infer_backend lmdeploy_cache_max_entry_count lmdeploy_quant_policy lmdeploy_session_len lmdeploy_tp "
    "lmdeploy_vision_batch_size max_batch_size max_shard_size merge_lora metric reranker_use_activation result_path "
    "safe_serialization sglang_context_length sglang_disable_cuda_graph sglang_disable_custom_all_reduce sglang_dp_size "
    "sglang_enable_dp_attention sglang_enable_ep_moe sglang_ep_size sglang_kv_cache_dtype sglang_mem_fraction_static "
    "sglang_pp_size sglang_quantization sglang_speculative_algorithm sglang_speculative_eagle_topk "
    "sglang_speculative_num_draft_tokens sglang_speculative_num_steps sglang_tp_size val_dataset_sample "
    "vllm_data_parallel_size vllm_disable_cascade_attn vllm_disable_custom_all_reduce vllm_enable_expert_parallel "
    "vllm_enable_prefix_caching vllm_enforce_eager vllm_engine_kwargs vllm_gpu_memory_utilization vllm_limit_mm_per_prompt "
    "vllm_max_lora_rank vllm_max_model_len vllm_max_num_seqs vllm_mm_processor_cache_gb vllm_pipeline_parallel_size "
    "vllm_quantization vllm_reasoning_parser vllm_speculative_config vllm_tensor_parallel_size vllm_use_async_engine "
    "write_batch_size";
constexpr std::string_view kSwiftServer =
    "api_key host log_interval log_level max_logprobs owned_by port served_model_name ssl_certfile ssl_keyfile verbose";
constexpr std::string_view kSwiftRollout = "context_manager gym_env max_turns multi_turn_scheduler use_gym_env vllm_enable_lora";
constexpr std::string_view kSwiftEval =
    "eval_backend eval_dataset eval_dataset_args eval_generation_config eval_limit eval_num_proc eval_output_dir eval_url "
    "extra_eval_args local_dataset";
constexpr std::string_view kSwiftExport =
    "commit_message exist_ok group_size hub_model_id hub_private_repo max_shard_size mcore_adapter mcore_model merge_lora "
    "output_dir push_to_hub quant_batch_size quant_n_samples safe_serialization save_missing_weights template_mode "
    "test_convert_dtype test_convert_precision thread_count to_cached_dataset to_hf to_mcore to_ollama to_peft_format";
constexpr std::string_view kSwiftSample =
    "cache_files data_range easy_query_threshold engine_kwargs n_best_to_keep num_return_sequences num_sampling_batch_size "
    "num_sampling_batches orm_model output_dir output_file override_exist_file prm_model prm_threshold resume "
    "sampler_engine sampler_type";
constexpr std::string_view kSwiftPage = "base_url is_multimodal lang server_name server_port share studio_title";
constexpr std::string_view kSwiftEarlierEvery =
    "ckpt_dir dtype load_args_from_ckpt_dir load_dataset_config max_seq_length model_id_or_path revision sft_type "
    "template_type tools_prompt train_type";
constexpr std::string_view kSwiftEarlierTraining =
    "adafactor add_output_dir_suffix additional_trainable_parameters batch_size dataset_test_ratio eval_batch_size "
    "evaluation_strategy fp16_opt_level fsdp_min_num_params half_precision_backend include_inputs_for_metrics "
    "include_tokens_per_second jit_mode_eval lora_bias_trainable lora_dropout_p lora_lr_ratio lora_modules_to_save "
    "lora_target_modules no_cuda overwrite_output_dir past_index preprocess_num_proc ray_scope resume_from_adapter "
    "save_safetensors tpu_num_cores train_dataset_sample use_ipex use_mps_device val_dataset_sample";
constexpr std::string_view kSwiftEarlierRlhf =
    "gc_collect_after_offload lmdeploy_device multi_turn_func num_infer_workers use_lmdeploy vllm_device";
constexpr std::string_view kSwiftEarlierInference =
    "gpu_memory_utilization max_num_seqs merged_lora_path tensor_parallel_size vllm_max_len";

// LLaMA-Factory 0.9.5 and earlier.
constexpr std::string_view kFactoryEvery =
    "adapter_folder adapter_name_or_path add_special_tokens add_tokens additional_target apollo_layerwise apollo_proj "
    "apollo_proj_type apollo_rank apollo_scale apollo_scale_front apollo_scale_type apollo_target apollo_update_interval "
    "asft_alpha audio_sampling_rate badam_mask_mode badam_mode badam_start_block badam_switch_interval badam_switch_mode "
    "badam_update_ratio badam_verbose buffer_size cache_dir compute_accuracy create_new_adapter crop_to_patches cutoff_len "
    "data_shared_file_system dataset dataset_dir default_system disable_gradient_checkpointing disable_shuffling "
    "double_quantization dpo_label_smoothing eaft_alpha early_stopping_steps enable_liger_kernel enable_thinking "
    "eval_dataset eval_num_beams eval_on_each_dataset export_device export_dir export_hub_model_id export_legacy_format "
    "export_quantization_bit export_quantization_dataset export_quantization_maxlen export_quantization_nsamples "
    "export_size finetuning_type flash_attn freeze_extra_modules freeze_language_model freeze_multi_modal_projector "
    "freeze_trainable_layers freeze_trainable_modules freeze_vision_tower galore_layerwise galore_proj_type galore_rank "
    "galore_scale galore_target galore_update_interval hf_hub_token hyper_parallel_args hyper_parallel_cp_size "
    "ignore_pad_token_for_loss "
    "image_do_pan_and_scan image_max_pixels image_min_pixels include_effective_tokens_per_second infer_backend infer_dtype "
    "init_special_tokens interleave_probs kt_config kt_cpu_activation kt_expert_checkpoint_path kt_lora_expert_intermediate_size "
    "kt_lora_expert_num "
    "kt_non_expert_weight_path kt_use_lora_experts kt_weight_path kto_chosen_weight kto_rejected_weight ld_alpha lora_alpha "
    "lora_dropout lora_rank "
    "lora_target loraplus_lr_embedding loraplus_lr_ratio low_cpu_mem_usage mask_history max_samples media_dir mix_strategy "
    "mixture_of_depths model_name_or_path model_revision module_dropout moe_aux_loss_coef ms_hub_token neat_packing "
    "new_special_tokens_config offload_folder oft_block_size oft_rank oft_target om_hub_token overwrite_cache packing "
    "pissa_convert pissa_init pissa_iter plot_loss ppo_buffer_size ppo_epochs ppo_score_norm ppo_target ppo_whiten_rewards "
    "pref_bco_weight pref_beta pref_ftx pref_loss preprocessing_batch_size preprocessing_num_workers preserve_thinking "
    "print_param_status pure_bf16 quantization_bit quantization_device_map quantization_method quantization_type ref_model "
    "ref_model_adapters ref_model_quantization_bit resize_vocab reward_model reward_model_adapters "
    "reward_model_quantization_bit reward_model_type rope_scaling sglang_config sglang_lora_backend sglang_maxlen "
    "sglang_mem_fraction sglang_tp_size shift_attn simpo_gamma split_special_tokens stage streaming swanlab_api_key "
    "swanlab_lark_secret swanlab_lark_webhook_url swanlab_logdir swanlab_mode swanlab_project swanlab_run_name "
    "swanlab_workspace template tokenized_path tool_format train_from_scratch train_on_prompt trust_remote_code "
    "upcast_layernorm upcast_lmhead_output use_adam_mini use_apollo use_asft_loss use_audio_in_video use_badam use_dft_loss "
    "use_dora use_eaft_loss use_fast_tokenizer use_galore use_hyper_parallel use_kt use_kv_cache use_llama_pro use_mca "
    "use_megatron_bridge "
    "use_muon use_reentrant_gc use_rslora use_swanlab use_unsloth use_unsloth_gc use_v1_kernels val_size video_fps "
    "video_max_pixels video_maxlen video_min_pixels vllm_config vllm_enforce_eager vllm_gpu_util vllm_max_lora_rank "
    "vllm_maxlen";
constexpr std::string_view kFactoryGenerating =
    "do_sample length_penalty max_length max_new_tokens num_beams repetition_penalty skip_special_tokens temperature top_k "
    "top_p";
constexpr std::string_view kFactoryTraining =
    "accelerator_config adam_beta1 adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices "
    "batch_eval_metrics bf16 bf16_full_eval data_seed dataloader_drop_last dataloader_num_workers "
    "dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers "
    "ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed disable_tqdm do_eval "
    "do_predict do_train enable_jit_checkpoint enable_torch_profiler eval_accumulation_steps eval_delay "
    "eval_do_concat_batches eval_on_start eval_steps eval_strategy eval_use_gather_object fp16 fp16_full_eval fp8 "
    "fp8_backend fp8_enable_fsdp_float8_all_gather fsdp fsdp_config full_determinism generation_config "
    "generation_max_length generation_num_beams gradient_accumulation_steps gradient_checkpointing "
    "gradient_checkpointing_kwargs greater_is_better hub_always_push hub_model_id hub_private_repo hub_revision "
    "hub_strategy hub_token ignore_data_skip include_for_metrics include_num_input_tokens_seen label_names "
    "label_smoothing_factor learning_rate length_column_name liger_kernel_config load_best_model_at_end local_rank "
    "log_level log_level_replica log_on_each_node logging_dir logging_first_step logging_nan_inf_filter logging_steps "
    "logging_strategy lr_scheduler_kwargs lr_scheduler_type master_addr master_port max_grad_norm max_steps "
    "metric_for_best_model neftune_noise_alpha num_train_epochs optim optim_args optim_target_modules output_dir "
    "overwrite_output_dir parallelism_config per_device_eval_batch_size per_device_train_batch_size predict_with_generate "
    "prediction_loss_only profile_modules profiler_active_steps profiler_output_dir profiler_profile_memory "
    "profiler_record_shapes profiler_repeat profiler_wait_steps profiler_warmup_steps profiler_with_stack project "
    "push_to_hub ray_init_kwargs ray_num_workers remove_unused_columns report_to restore_callback_states_from_checkpoint "
    "resume_from_checkpoint run_name save_on_each_node save_only_model save_steps save_strategy save_total_limit seed "
    "skip_memory_metrics sortish_sampler tf32 torch_compile torch_compile_backend torch_compile_mode "
    "torch_empty_cache_steps trackio_bucket_id trackio_space_id trackio_static_space_id train_sampling_strategy use_cache "
    "use_cpu use_liger_kernel warmup_ratio warmup_steps weight_decay";
constexpr std::string_view kFactoryEval = "batch_size download_mode lang n_shot save_dir seed task task_dir";
constexpr std::string_view kFactoryEarlierTraining =
    "adafactor evaluation_strategy fp16_opt_level fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap group_by_length "
    "half_precision_backend "
    "include_inputs_for_metrics include_tokens_per_second jit_mode_eval no_cuda past_index placement_strategy ray_run_name "
    "ray_scope ray_storage_path resources_per_worker save_safetensors tpu_num_cores use_ipex use_mps_device";

constexpr Command kCommands[] = {
    {FrontEnd::swift, "sft", kSft, {kSwiftEvery, kSwiftTraining, kSwiftEarlierEvery, kSwiftEarlierTraining}},
    {FrontEnd::swift, "pt", kPt, {kSwiftEvery, kSwiftTraining, kSwiftEarlierEvery, kSwiftEarlierTraining}},
    {FrontEnd::swift,
     "rlhf",
     kRlhf,
     {kSwiftEvery, kSwiftTraining, kSwiftRlhf, kSwiftEarlierEvery, kSwiftEarlierTraining, kSwiftEarlierRlhf}},
    {FrontEnd::swift, "infer", kInfer, {kSwiftEvery, kSwiftInference, kSwiftEarlierEvery, kSwiftEarlierInference}},
    {FrontEnd::swift, "deploy", kDeploy, {kSwiftEvery, kSwiftInference, kSwiftServer, kSwiftPage, kSwiftEarlierInference}},
    {FrontEnd::swift, "rollout", kRollout, {kSwiftEvery, kSwiftInference, kSwiftServer, kSwiftRollout}},
    {FrontEnd::swift, "export", kExport, {kSwiftEvery, kSwiftExport, kSwiftEarlierEvery, kSwiftEarlierInference}},
    {FrontEnd::swift, "eval", kEval, {kSwiftEvery, kSwiftInference, kSwiftServer, kSwiftEval}},
    {FrontEnd::swift, "sample", kSample, {kSwiftEvery, kSwiftSample}},
    {FrontEnd::factory, "train", kTrain, {kFactoryEvery, kFactoryGenerating, kFactoryTraining, kFactoryEarlierTraining}},
    {FrontEnd::factory, "chat", kInfer, {kFactoryEvery, kFactoryGenerating}},
    {FrontEnd::factory, "api", kDeploy, {kFactoryEvery, kFactoryGenerating}},
    {FrontEnd::factory, "export", kExport, {kFactoryEvery, kFactoryGenerating}},
    {FrontEnd::factory, "eval", kEval, {kFactoryEvery, kFactoryEval}},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::vector<std::string_view> Command::names() const {
  std::vector<std::string_view> list;
  for (auto rest : parts)
    while (!rest.empty()) {
      auto name = rest.substr(0, rest.find(' '));
      list.push_back(name);
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  return list;
}

bool takes(FrontEnd front_end, Verbs verb, std::string_view name) {
  if (front_end == FrontEnd::accelerate) front_end = FrontEnd::factory;
  return std::ranges::any_of(kCommands, [&](const Command& command) {
    bool asked = (front_end == FrontEnd::hone || command.dialect == front_end) && command.verb & verb;
    return asked && std::ranges::count(command.names(), name) > 0;
  });
}

}  // namespace hone::cli::compat

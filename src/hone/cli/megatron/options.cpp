#include "hone/cli/megatron/megatron.h"

namespace hone::cli {
namespace {

using enum MegatronOption::Fate;

constexpr std::string_view kOwnKernels = "hone chooses its own kernels";
constexpr std::string_view kOwnExchange = "hone has one exchange between experts";
constexpr std::string_view kOverlap =
    "gradients are summed while the backward pass runs, and weights gathered while the next step begins, whatever it says";
constexpr std::string_view kAnyLayout = "checkpoints of every layout can be continued in every other";
constexpr std::string_view kReader = "rows are prepared by threads that need no such setting";
constexpr std::string_view kText = "only models of images read it";
constexpr std::string_view kFloat8 = "fp8 products have one scale for each tensor, which is computed anew each time";
constexpr std::string_view kFloat4 = "products in fp4 are not in this version; use --fp8_format hybrid";
constexpr std::string_view kMegatronFamilies = "the model families that have it are not in this version";
constexpr std::string_view kPrediction =
    "multi-token prediction is not trained: its layers are saved as they are, and the loss is that of the next token";
constexpr std::string_view kOffWords = "none|false|0|1|";

constexpr MegatronOption kMegatronOptions[] = {
    // Run, data, schedule.
    {"micro_batch_size", renamed, "per_device_train_batch_size"},
    {"train_iters", renamed, "max_steps"},
    {"save_interval", renamed, "save_steps"},
    {"eval_interval", renamed, "eval_steps"},
    {"log_interval", renamed, "logging_steps"},
    {"max_epochs", renamed, "num_train_epochs"},
    {"save", renamed, "output_dir"},
    {"num_workers", renamed, "dataloader_num_workers"},
    {"lr", renamed, "learning_rate"},
    {"lr_warmup_iters", renamed, "warmup_steps"},
    {"lr_warmup_fraction", renamed, "warmup_ratio"},
    {"clip_grad", renamed, "max_grad_norm"},
    {"adam_eps", renamed, "adam_epsilon"},
    {"train_type", renamed, "tuner_type"},
    {"no_save_optim", renamed, "save_only_model"},
    {"no_load_optim", renamed, "resume_only_model"},
    {"lr_warmup_init", refused, "the rate begins at 0", "0|0.0"},
    {"lr_decay_iters", refused, "the rate falls until the last step; set --train_iters"},
    {"lr_wsd_decay_style", refused, "the schedule WSD is not in this version of megatron"},
    {"lr_wsd_decay_iters", refused, "the schedule WSD is not in this version of megatron"},
    {"weight_decay_incr_style", refused, "weight decay is constant", "constant"},
    {"start_weight_decay", refused, "weight decay is constant; set --weight_decay"},
    {"end_weight_decay", refused, "weight decay is constant; set --weight_decay"},
    {"sgd_momentum", refused, "give it as --optim_args momentum=…", "0.9"},
    {"data_sharding", refused, "rows are shuffled over the full dataset", kOffWords},
    {"data_parallel_random_init", refused, "all replicas of a model start with equal weights", kOffWords},
    {"skip_megatron_init", accepted, "it belongs to Ray"},
    {"use_ray", accepted, "processes start here; hone ray-submit N -- megatron … starts them on a Ray cluster"},
    {"manual_gc", accepted, "there is no garbage collector here"},
    {"manual_gc_steps", accepted, "there is no garbage collector here"},
    {"manual_gc_eval", accepted, "there is no garbage collector here"},
    {"packing_num_proc", accepted, kReader},
    {"mlp_padding_free", accepted, "no row is padded"},
    {"tensorboard_dir", renamed, "logging_dir"},
    {"tensorboard_queue_size", accepted, "events are written at once"},
    {"wandb_project", accepted, "hone does not report to Weights & Biases"},
    {"wandb_exp_name", accepted, "hone does not report to Weights & Biases"},
    // Memory, kernels, precision.
    {"recompute_modules", refused, "blocks are recomputed in full (--recompute_granularity full), or not at all", "core_attn"},
    {"moe_layer_recompute", refused, "blocks are recomputed in full (--recompute_granularity full)", kOffWords},
    {"masked_softmax_fusion", accepted, kOwnKernels},
    {"no_masked_softmax_fusion", accepted, kOwnKernels},
    {"bias_dropout_fusion", accepted, kOwnKernels},
    {"no_bias_dropout_fusion", accepted, kOwnKernels},
    {"bias_activation_fusion", accepted, kOwnKernels},
    {"bias_swiglu_fusion", accepted, kOwnKernels},
    {"no_bias_swiglu_fusion", accepted, kOwnKernels},
    {"apply_rope_fusion", accepted, kOwnKernels},
    {"gradient_accumulation_fusion", accepted, kOwnKernels},
    {"no_gradient_accumulation_fusion", accepted, kOwnKernels},
    {"cross_entropy_loss_fusion", accepted, kOwnKernels},
    {"cross_entropy_fusion_impl", accepted, kOwnKernels},
    {"attention_backend", accepted, kOwnKernels},
    {"attention_softmax_in_fp32", accepted, "attention sums in float32"},
    {"apply_query_key_layer_scaling", accepted, "attention sums in float32"},
    {"optimizer_cuda_graph", accepted, kOwnKernels},
    {"te_rng_tracker", accepted, kOwnKernels},
    {"tp_comm_overlap", accepted, kOwnKernels},
    {"nccl_comm_warmup", accepted, kOwnKernels},
    {"calculate_per_token_loss", refused, "a step's loss is the mean over its labeled tokens", "true"},
    {"accumulate_allreduce_grads_in_fp32", accepted, "gradients of 16-bit weights add up in float32"},
    {"main_grads_dtype", refused, "gradients of 16-bit weights add up in float32; leave it out", "fp32"},
    {"main_params_dtype", refused, "master weights are float32; leave it out", "fp32"},
    {"use_precision_aware_optimizer", accepted, "--exp_avg_dtype and --exp_avg_sq_dtype apply with and without it"},
    {"fp8_recipe", accepted, kFloat8},
    {"fp8_param_gather", accepted, "weights are stored and gathered in their own dtype"},
    {"fp8_amax_history_len", accepted, kFloat8},
    {"fp8_amax_compute_algo", accepted, kFloat8},
    {"fp4_format", refused, kFloat4, kOffWords},
    {"fp4_recipe", accepted, kFloat4},
    {"fp4_param_gather", refused, kFloat4, kOffWords},
    {"muon_split_qkv", refused, "queries, keys and values are matrices of their own", "true"},
    {"muon_scale_mode", refused, "updates are scaled by the longer side: spectral", "spectral"},
    {"muon_fp32_matmul_prec", refused, "accelerators iterate in bf16: medium", "medium"},
    {"muon_coefficient_type", refused, "every iteration has the same coefficients: simple", "simple"},
    {"muon_tp_mode", refused, "updates are computed on full matrices: duplicated", "duplicated|distributed"},
    {"muon_scalar_optimizer", refused, "vectors and embeddings are updated by adam", "adam"},
    {"muon_lr", refused, "matrices have the learning rate --lr"},
    {"muon_min_lr", refused, "matrices have the learning rate --lr"},
    // Layout.
    {"tensor_model_parallel_size", renamed, "tensor_parallel_size"},
    {"pipeline_model_parallel_size", renamed, "pipeline_parallel_size"},
    {"expert_model_parallel_size", renamed, "expert_parallel_size"},
    {"virtual_pipeline_model_parallel_size", renamed, "virtual_pipeline_parallel_size"},
    {"microbatch_group_size_per_vp_stage", refused, "groups of micro-batches are as large as the pipeline has ranks"},
    {"overlap_p2p_comm", accepted, "sends and receives that cross go together"},
    {"batch_p2p_comm", accepted, "sends and receives that cross go together"},
    {"cp_partition_mode", refused, "a rank has a piece of the front and its mirror image of the back", "zigzag"},
    {"sequence_packing_scheduler", refused, "packs are made before the first step", kOffWords},
    {"overlap_grad_reduce", accepted, kOverlap},
    {"overlap_param_gather", accepted, kOverlap},
    {"overlap_param_gather_with_optimizer_step", accepted, kOverlap},
    {"align_grad_reduce", accepted, kOverlap},
    {"align_param_gather", accepted, kOverlap},
    {"strict_fsdp_dtensor_load", accepted, kAnyLayout},
    // Experts, MTP, model extras.
    {"moe_aux_loss_coeff", renamed, "router_aux_loss_coef"},
    {"moe_router_load_balancing_type", refused, "the balance of experts is aux_loss", "aux_loss|none"},
    {"moe_z_loss_coeff", renamed, "router_z_loss_coef"},
    {"moe_token_dispatcher_type", accepted, kOwnExchange},
    {"moe_enable_deepep", accepted, kOwnExchange},
    {"moe_grouped_gemm", accepted, kOwnExchange},
    {"moe_permute_fusion", accepted, kOwnExchange},
    {"moe_shared_expert_overlap", accepted, kOwnExchange},
    {"router_replay_mode", refused, "it belongs to grpo", "disabled"},
    {"mtp_num_layers", accepted, kPrediction},
    {"mtp_loss_scaling_factor", accepted, kPrediction},
    {"mtp_decoder_input_detach", accepted, kPrediction},
    {"mtp_shared_weights", accepted, kPrediction},
    {"engram_tokenizer_map", refused, kMegatronFamilies},
    {"dsa_indexer_loss_coeff", refused, kMegatronFamilies, kOffWords},
    {"dsa_indexer_use_sparse_loss", refused, kMegatronFamilies, kOffWords},
    {"apply_dsa_kernel_fusion", refused, kMegatronFamilies, kOffWords},
    {"csa_dense_mode", refused, kMegatronFamilies, kOffWords},
    {"use_fused_mhc", refused, kMegatronFamilies, kOffWords},
    {"mhc_recompute_layer_num", refused, kMegatronFamilies},
    {"linear_decoupled_in_proj", accepted, "the projections of a gated delta net are those of the model's files"},
    {"apply_wd_to_qk_layernorm", refused, "norms do not decay", kOffWords},
    {"megatron_extra_kwargs", refused, "there is no model of Megatron that would read it"},
    {"language_model_only", accepted, kText},
    // Megatron Bridge's, in LLaMA-Factory's files.
    {"use_packed_sequences", renamed, "neat_packing"},
    {"mixed_precision", refused, "set bf16 or fp16", "bf16_mixed|bf16"},
    {"megatron_pretrained_checkpoint", refused, kMcoreUnread},
    {"export_hf_on_finish", accepted, "checkpoints are Hugging Face folders"},
    {"extra_config", refused, "there is no model of Megatron that would read it"},
    // Tuner and files.
    {"offload_bridge", accepted, "there is no second copy of the weights between training and rollouts"},
    {"bridge_backend", accepted, "files of the hub are read and written as they are"},
    {"load_safetensors", accepted, "--model is read as it is"},
    {"save_missing_weights", accepted, "saved models are complete"},
    {"use_persistent_ckpt_worker", accepted, "--async_save uses a separate thread"},
    {"mcore_ref_model", refused, kMcoreUnread},
    {"mcore_ref_adapter", refused, kMcoreUnread},
    {"no_save_rng", accepted, "the state of random numbers is small"},
    {"no_load_rng", accepted, "another layout draws its own random numbers, the same layout those it would have drawn"},
    {"perform_initialization", refused, "weights come from --model", kOffWords},
    {"no_initialization", accepted, "weights come from --model"},
    {"use_cpu_initialization", accepted, "weights come from --model"},
    {"dist_ckpt_save_pre_mcore_014", accepted, kAnyLayout},
    {"dist_ckpt_optim_fully_reshardable", accepted, kAnyLayout},
    {"distrib_optim_fully_reshardable_mem_efficient", accepted, kAnyLayout},
};

}  // namespace

std::span<const MegatronOption> megatron_options() { return kMegatronOptions; }

}  // namespace hone::cli

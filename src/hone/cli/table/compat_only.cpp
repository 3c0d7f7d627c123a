// Rare options of ms-swift and LLaMA-Factory, in a separate file to keep the other files readable.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

namespace {

void add_rare_training(Rows& rows) {
  constexpr std::string_view kThreads = "rows are prepared by threads, which need no start method";
  constexpr std::string_view kRay = "hone needs no Ray";
  add_group(
      rows, "Compatibility options: training", kTraining,
      {
          {"use_cache", Flag, "false", "Keep keys and values while training.",
           always_on{"false", "training never reads a cache"}},
          {"enable_jit_checkpoint", Flag, "false", "Save a checkpoint on SIGTERM.",
           always_on{"true", "a run always saves when it receives SIGTERM"}},
          {"dataloader_multiprocessing_context", Choice("fork|spawn|forkserver"), "", "How worker processes start.",
           no_effect{kThreads}},
          {"dataloader_in_order", Flag, "true", "Batches in the order of the rows.",
           always_on{"true", "batches always come in order, so that a run can be resumed exactly"}},
          {"train_sampling_strategy", Choice("random|sequential|group_by_length"), "random", "Order of the rows."},
          {"ddp_static_graph", Flag, "", "The same parameters have gradients in every step.",
           always_on{"true", "gradients are reduced as they become available, regardless of which parameters have one"}},
          {"mrl_dims", JsonText, "", "Matryoshka embedding sizes and their loss weights, as in {\"512\": 1.0, \"256\": 0.5}.",
           only_swift{}},
          {"galore_proj_quant", Flag, "false", "Q-GaLore: quantize the projector.", only_swift{}},
          {"galore_proj_bits", Integer(1, 8), "4", "Q-GaLore: projector bits.", only_swift{}},
          {"galore_proj_group_size", Integer(1), "256", "Q-GaLore: quantization group size.", only_swift{}},
          {"galore_cos_threshold", Real(-1, 1), "0.4",
           "Q-GaLore: cosine similarity of recent projections above which they are updated less often.", only_swift{}},
          {"galore_gamma_proj", Integer(1), "2", "Q-GaLore: factor by which the update interval grows.", only_swift{}},
          {"galore_queue_size", Integer(1), "5", "Q-GaLore: queue size.", only_swift{}},
          {"ray_exp_name", Text, "", "Ray.", only_swift{}, verbs{kModelUsers}, no_effect{kRay}},
          {"device_groups", JsonText, "", "Ray.", only_swift{}, verbs{kModelUsers}, no_effect{kRay}},
          {"decision_drop_instructions", Real(0, 1), "0", "Decision data: share of questions whose text is dropped.",
           only_swift{}, verbs{kModelUsers}},
          {"decision_subsample_options", Integer(0), "0",
           "Decision data: maximum options per question, including the correct one; 0 is all.", only_swift{}, verbs{kModelUsers}},
          {"decision_state_as_text", Real(0, 1), "0", "Decision data: share of records whose state is written as lines of text.",
           only_swift{}, verbs{kModelUsers}},
          {"decision_shuffle_fields", Flag, "false", "Decision data: shuffle the fields of the state, and the questions.",
           only_swift{}, verbs{kModelUsers}},
          {"use_swift_lora", Flag, "false", "ms-swift's own LoRA instead of PEFT's.", only_swift{},
           always_on{"true", "LoRA is hone's own; its files have PEFT's format"}},
          {"trackio_bucket_id", Text, "", "Trackio.", no_effect{"Trackio is not written"}},
          {"trackio_static_space_id", Text, "", "Trackio.", no_effect{"Trackio is not written"}},
          {"profiler_record_shapes", Flag, "true", "Shapes in the profile.", only_factory{}},
          {"profiler_profile_memory", Flag, "true", "Memory in the profile.", only_factory{}},
          {"profiler_with_stack", Flag, "true", "Call stacks in the profile.", only_factory{}},
      });
}

void add_rare_rlhf(Rows& rows) {
  constexpr std::string_view kTitle = "Compatibility options: reinforcement learning";
  add_group(rows, kTitle, kRlhf,
            {
                {"ds3_gather_for_generation", Flag, "true", "Gather ZeRO-3 weights to generate.", only_swift{}, verbs{kTraining},
                 always_on{"true", "a block's weights are gathered when it computes"}},
                {"wandb_log_unique_prompts", Flag, "", "Each prompt once in W&B.", only_swift{},
                 no_effect{"completions are written to completions.jsonl, not to W&B"}},
                {"gc_collect_after_offload", Flag, "false", "Collect Python's garbage after offloading.", only_swift{},
                 no_effect{"memory is freed when it is no longer used"}},
                {"num_infer_workers", Integer(1), "", "Inference processes.", only_swift{},
                 no_effect{"every training process generates; --vllm_mode server generates on other devices"}},
                {"vllm_device", List, "", "Devices of inference processes.", only_swift{}, also{"lmdeploy_device"},
                 no_effect{"every training process generates; --vllm_mode server generates on other devices"}},
                {"use_lmdeploy", Flag, "false", "Generate with LMDeploy.", only_swift{},
                 no_effect{"completions come from hone's own engine"}},
            });
}

void add_rare_serving(Rows& rows) {
  constexpr std::string_view kOne = "there is one engine, hone's own; it sizes itself";
  constexpr std::string_view kOneKt = "KTransformers is not part of hone";
  add_unsupported_group(
      rows, "Compatibility options: other engines", kGenerating, kOne,
      {
          {"sglang_enable_ep_moe", Flag, "false", "SGLang detail.", only_swift{}},
          {"sglang_speculative_num_steps", Integer(1), "", "SGLang detail.", only_swift{}},
          {"sglang_speculative_eagle_topk", Integer(1), "", "SGLang detail.", only_swift{}},
          {"sglang_lora_backend", Choice("triton|flashinfer"), "triton", "SGLang detail.", only_factory{},
           verbs{kGenerating | kTrain | kExport}},
          {"kt_weight_path", Path, "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_expert_checkpoint_path", Path, "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_non_expert_weight_path", Path, "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_cpu_activation", Choice("retain|recompute"), "", "KTransformers.", only_factory{}, verbs{kModelUsers},
           no_effect{kOneKt}},
          {"kt_config", JsonText, "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_use_lora_experts", Flag, "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_lora_expert_num", Integer(1), "", "KTransformers.", only_factory{}, verbs{kModelUsers}, no_effect{kOneKt}},
          {"kt_lora_expert_intermediate_size", Integer(1), "", "KTransformers.", only_factory{}, verbs{kModelUsers},
           no_effect{kOneKt}},
          {"context_manager", Text, "", "How a rollout's history is truncated.", only_swift{}, verbs{kRollout}},
      });
  add_group(rows, "Compatibility options: web pages and export", kDeploy,
            {
                {"is_multimodal", Flag, "", "Buttons for images and audio.", only_swift{}, verbs{kDeploy},
                 always_on{"false", "the page offers the media that the model supports"}},
                {"test_convert_dtype", Text, "float32", "Type of the comparison.", only_swift{}, verbs{kExport},
                 no_effect{"only read when converting from or to Megatron"}},
                {"save_missing_weights", Flag, "false", "Copy weights that a conversion lacks.", only_swift{}, verbs{kExport},
                 no_effect{"only read when converting from or to Megatron"}},
            });
}

}  // namespace

void add_compat_only(Rows& rows) {
  add_rare_training(rows);
  add_rare_rlhf(rows);
  add_rare_serving(rows);
}

}  // namespace hone::cli::table

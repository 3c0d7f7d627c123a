// The options of table/model.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Which model, on which device, how it is loaded, and what of its vocabulary and quantization changes.
struct ModelArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<Json> mrl_dims{*this, "mrl_dims"};
  Arg<std::string> quant_bits{*this, "quant_bits"};
  Arg<bool> load_args{*this, "load_args"};
  Arg<bool> load_data_args{*this, "load_data_args"};
  Arg<std::string> ckpt_dir{*this, "ckpt_dir"};
  Arg<std::string> model{*this, "model"};
  Arg<int64_t> seed{*this, "seed"};
  Arg<std::string> model_type{*this, "model_type"};
  Arg<std::vector<std::string>> adapters{*this, "adapters"};
  Arg<std::string> task_type{*this, "task_type"};
  Arg<int64_t> num_labels{*this, "num_labels"};
  Arg<std::string> problem_type{*this, "problem_type"};
  Arg<std::string> torch_dtype{*this, "torch_dtype"};
  Arg<std::string> attn_impl{*this, "attn_impl"};
  Arg<std::string> experts_impl{*this, "experts_impl"};
  Arg<bool> use_kt{*this, "use_kt"};
  Arg<std::string> moe_router_dtype{*this, "moe_router_dtype"};
  Arg<Json> rope_scaling{*this, "rope_scaling"};
  Arg<int64_t> max_model_len{*this, "max_model_len"};
  Arg<Json> device_map{*this, "device_map"};
  Arg<Json> max_memory{*this, "max_memory"};
  Arg<std::vector<std::string>> new_special_tokens{*this, "new_special_tokens"};
  Arg<std::vector<std::string>> add_tokens{*this, "add_tokens"};
  Arg<std::string> new_special_tokens_config{*this, "new_special_tokens_config"};
  Arg<std::string> init_special_tokens{*this, "init_special_tokens"};
  Arg<bool> resize_vocab{*this, "resize_vocab"};
  Arg<std::string> init_strategy{*this, "init_strategy"};
  Arg<bool> train_from_scratch{*this, "train_from_scratch"};
  Arg<Json> model_kwargs{*this, "model_kwargs"};
  Arg<bool> split_special_tokens{*this, "split_special_tokens"};
  Arg<bool> guard_special_tokens{*this, "guard_special_tokens"};
  Arg<bool> use_unsloth_gc{*this, "use_unsloth_gc"};
  Arg<bool> use_liger_kernel{*this, "use_liger_kernel"};
  Arg<Json> liger_kernel_config{*this, "liger_kernel_config"};
  Arg<bool> enable_npu_model_patch{*this, "enable_npu_model_patch"};
  Arg<bool> shift_attn{*this, "shift_attn"};
  Arg<bool> print_param_status{*this, "print_param_status"};
  Arg<std::string> quant_method{*this, "quant_method"};
  Arg<int64_t> hqq_axis{*this, "hqq_axis"};
  Arg<std::string> bnb_4bit_quant_type{*this, "bnb_4bit_quant_type"};
  Arg<bool> bnb_4bit_use_double_quant{*this, "bnb_4bit_use_double_quant"};
  Arg<std::string> bnb_4bit_compute_dtype{*this, "bnb_4bit_compute_dtype"};
  Arg<int64_t> max_pixels{*this, "max_pixels"};
  Arg<int64_t> image_min_pixels{*this, "image_min_pixels"};
  Arg<bool> crop_to_patches{*this, "crop_to_patches"};
  Arg<bool> image_do_pan_and_scan{*this, "image_do_pan_and_scan"};
  Arg<int64_t> video_max_pixels{*this, "video_max_pixels"};
  Arg<int64_t> video_min_pixels{*this, "video_min_pixels"};
  Arg<double> video_fps{*this, "video_fps"};
  Arg<int64_t> video_maxlen{*this, "video_maxlen"};
  Arg<bool> use_audio_in_video{*this, "use_audio_in_video"};
  Arg<std::string> video_positions{*this, "video_positions"};
  Arg<bool> use_cpu{*this, "use_cpu"};
  Arg<std::string> devices{*this, "devices"};
  Arg<int64_t> threads{*this, "threads"};
};

}  // namespace hone::cli

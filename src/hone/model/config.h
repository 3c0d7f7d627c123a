// The part of config.json that defines shapes and arithmetic, in one form for all families.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"
#include "hone/io/expert_names.h"
#include "hone/model/encoders/audio_config.h"
#include "hone/model/encoders/vision_config.h"

namespace hone::model {

enum class RopeKind { plain, linear, dynamic, llama3, yarn };

struct RopeConfig {
  RopeKind kind = RopeKind::plain;
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_context = 0;                      // what the frequencies were trained for (dynamic, llama3, yarn)
  double low_frequency = 1.0, high_frequency = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;          // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  bool truncate = true;  // yarn: round the boundaries between kept and stretched frequencies
  // M-RoPE: the number of frequencies for time, height and width; empty: one-dimensional positions.
  std::vector<int64_t> mrope_section = {};
  bool mrope_interleaved = false;  // interleaved axes (Qwen3-VL); false: one section after the other (Qwen2-VL)
};

enum class Activation { silu, gelu_tanh };  // of the gate of an MLP

struct AttentionConfig {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<double> scale;  // of queries times keys; none: 1 / sqrt(head_dim)
  bool qkv_bias = false, output_bias = false;
  bool qk_norm = false;  // RMSNorm of each head of queries and keys
  // The leading elements of a head that RoPE rotates; 0: all of them.
  int64_t rotary_dim = 0;
  // q_proj returns each head's queries, then as many gates: their sigmoid scales the head's output.
  bool output_gate = false;

  int64_t rotated() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  int64_t q_width() const { return heads * head_dim * (output_gate ? 2 : 1); }  // of q_proj's output
};

// How the input projections of a gated delta net are stored.
enum class DeltaNetProjections {
  grouped,   // in_proj_qkvz and in_proj_ba, both with the parts of each key head next to each other (Qwen3-Next)
  separate,  // in_proj_qkv, in_proj_z, in_proj_b, in_proj_a (Qwen3.5)
};

// Layers of linear attention: gated delta nets.
struct LinearAttentionConfig {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  // dimensions of one head
  int64_t conv_kernel = 0;                                             // positions that the causal convolution reads
  DeltaNetProjections projections = DeltaNetProjections::separate;
  std::vector<bool> in_layer;  // per layer; the others have attention

  int64_t keys_width() const { return key_heads * key_dim; }
  int64_t values_width() const { return value_heads * value_dim; }
  int64_t conv_channels() const { return 2 * keys_width() + values_width(); }
};

// Experts instead of an MLP.
struct MoeConfig {
  int64_t count = 0;  // 0: no layer has any
  int64_t num_experts_per_tok = 0;
  int64_t width = 0;                            // inside each of them
  int64_t shared_expert_intermediate_size = 0;  // inside the one that every token goes through; 0: there is none
  bool norm_topk_prob = false;                  // the weights of a token's experts sum to 1
  double router_jitter_noise = 0;  // in training, what experts and router read is scaled by 1 - jitter … 1 + jitter
  std::vector<bool> in_layer;      // per layer; the others have an MLP
  io::ExpertNames stored_as;       // what their weights are called where they are saved
};

// The module names of a decoder in a family's files.
struct ModuleNames {
  std::string model = "model";  // around all but the head; "model.language_model" next to encoders
  std::string embedding = "embed_tokens", layers = "layers", final_norm = "norm", head = "lm_head", classifier = "score";
  std::string attention = "self_attn", q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj", q_norm = "q_norm",
              k_norm = "k_norm";
  std::string linear_attention = "linear_attn";
  std::string mlp = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string input_norm = "input_layernorm", pre_mlp_norm = "post_attention_layernorm";
  std::string post_attention_norm = {}, post_mlp_norm = {};  // of families that have them

  std::string block(int64_t layer) const;  // "model.layers.3"
};

struct DecoderConfig {
  std::string architecture;  // "Qwen2ForCausalLM"
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0, max_position_embeddings = 0;
  AttentionConfig attention;
  std::optional<LinearAttentionConfig> linear_attention;  // of models with layers that have it in place of attention
  MoeConfig experts;
  RopeConfig rope;
  std::optional<RopeConfig> window_rope;  // of layers with a window, where they have one of their own
  std::vector<int64_t> sliding_windows;   // per layer; 0: full attention
  Activation activation = Activation::silu;
  double embedding_scale = 1;        // the input of the first block is the row of the embedding times this
  bool zero_centered_norms = false;  // norms store how far their weights are from 1
  bool has_post_norms = false;       // RMSNorm on the outputs of attention and MLP, before the residual add (Gemma)
  double residual_scale = 1;         // their output is added times this
  double logits_scale = 1;           // the head's input is the last norm's output times this
  bool mlp_bias = false;
  bool tie_word_embeddings = false;  // the head is the embedding
  int64_t num_labels = 0;            // above 0: the head outputs this many scores per text, at its last token, instead of logits
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  ModuleNames names;
  std::optional<VisionConfig> vision;  // of models with a vision tower
  std::optional<AudioConfig> audio;    // of models with an audio encoder
  // Prefixes of tensors that are neither computed with nor trained, and written back unchanged.
  std::vector<std::string> carried = {};
  std::optional<at::ScalarType> dtype;  // of the checkpoint, as its config.json has it
  Json source;                          // config.json as read, for saving next to weights

  bool has_experts(int64_t layer) const { return experts.count > 0 && experts.in_layer[static_cast<size_t>(layer)]; }
  bool is_linear(int64_t layer) const { return linear_attention && linear_attention->in_layer[static_cast<size_t>(layer)]; }
  int64_t attention_layers() const;  // those that keep keys and values of every position
  bool has_plain_residual() const { return !has_post_norms && residual_scale == 1; }
  bool is_carried(const std::string& tensor) const;
  // The maximum width of a token between the two products of a layer's MLP, or of all its experts.
  int64_t widest_inner() const;
};

// Reads config.json with `changes` applied. Throws UserError(bad_checkpoint) naming the field; for an unknown architecture it
// lists the known ones.
DecoderConfig read_config(const std::filesystem::path& folder, const Json& changes = Json::object());
DecoderConfig parse_config(const Json& hf, const std::string& origin);

std::vector<std::string> supported_architectures();

// config.json's changes for a model of the same family with a head of `labels` scores; `problem` is transformers' problem_type.
Json classifier_changes(const Json& hf, int64_t labels, const std::string& problem);

}  // namespace hone::model

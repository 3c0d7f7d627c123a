// From a conversation to token ids and labels, as in ms-swift, LLaMA-Factory or the model's own chat template.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/pictures.h"
#include "hone/data/model_identity.h"
#include "hone/data/sample.h"

namespace hone::data {

enum class Dialect { swift, factory, jinja };
enum class Truncation { drop, left, right, split };  // `drop` is ms-swift's and LLaMA-Factory's "delete"

// Image size limits of the front ends; unset: from the model's own files, or the dialect's default.
struct PictureOptions {
  std::optional<int64_t> min_pixels, max_pixels;                   // swift: MIN_PIXELS, MAX_PIXELS
  std::optional<int64_t> min_tokens, max_tokens;                   // swift: IMAGE_MIN_TOKEN_NUM, IMAGE_MAX_TOKEN_NUM
  int64_t max_tiles = 12;                                          // swift: MAX_NUM (InternVL)
  int64_t video_segments = 8, video_max_tiles = 1;                 // swift: VIDEO_SEGMENTS, VIDEO_MAX_NUM (InternVL)
  int64_t num_frames = 8;                                          // swift: NUM_FRAMES (Ovis2.5)
  bool crop_to_patches = false;                                    // factory: InternVL's tiles
  bool pan_and_scan = false;                                       // factory: Gemma 3's pieces (image_do_pan_and_scan)
  int64_t shrink_above = 0;                                        // swift --max_pixels
  int64_t factory_min_pixels = 1024, factory_max_pixels = 589824;  // factory image_min_pixels, image_max_pixels
  std::optional<int64_t> video_min_tokens, video_max_tokens;       // swift: of a frame
  std::optional<int64_t> video_min_pixels, video_max_pixels;       // of a frame
  std::optional<int64_t> min_frames, max_frames;                   // swift: FPS_MIN_FRAMES, FPS_MAX_FRAMES; factory: video_maxlen
  std::optional<double> total_tokens;                              // swift: MODEL_SEQ_LEN, which all frames of a video share
  double fps = 2;                                                  // swift: FPS; factory: video_fps
  std::optional<std::string> norm_bbox;  // swift: norm1000, or none for pixels of the resized image; unset: the model's
  bool plain_boxes = false;              // swift: QWENVL_BBOX_FORMAT=new
  bool audio_in_video = false;           // swift: USE_AUDIO_IN_VIDEO; factory: use_audio_in_video, whose rows give the sound
  VideoPositions video_positions = VideoPositions::transformers_5;
  media::SourceRules sources;
};

// Fields without a comment mean the same in every dialect. dialect_defaults() returns the defaults of each.
struct EncodeConfig {
  Dialect dialect = Dialect::swift;
  std::string template_name;  // empty: the model's default; "jinja" or "auto": the model's own chat template; or a Jinja file
  std::optional<std::string> system;         // for conversations without one; swift --system, factory default_system
  int64_t max_length = 0;                    // 0: no limit; factory cutoff_len
  Truncation truncation = Truncation::drop;  // factory has its own rule
  std::string loss_scale = "default";        // swift: base[+name…]
  std::optional<bool> binary_loss_scale;     // swift: weights only mask; unset: when the chosen names allow it
  bool ignore_empty_think = true;            // swift: hybrid templates add +ignore_empty_think
  bool train_on_prompt = false;              // factory
  bool mask_history = false;                 // factory: train on the last response only
  std::optional<bool> enable_thinking, preserve_thinking;
  bool add_non_thinking_prefix = true;  // swift
  std::optional<std::string> response_prefix;
  bool use_chat_template = true;      // false: bare text between BOS and EOS
  bool pretraining = false;           // rows are plain text, every token is trained
  bool concatenate_text = false;      // factory pre-training with packing: texts are concatenated and split later
  bool train_last_turn_only = false;  // factory preference and KTO rows: history is prompt
  bool guard_special_tokens = false;  // message text that spells a special token stays text
  std::string tool_format;            // swift agent_template, factory tool_format; empty: the template's
  PictureOptions pictures;
};

EncodeConfig dialect_defaults(Dialect dialect);

class Encoder {
 public:
  // Throws UserError(usage) for an unknown template, tool format or loss_scale, naming the nearest known ones.
  static std::shared_ptr<const Encoder> make(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                             const ModelIdentity& model);
  virtual ~Encoder() = default;

  // All thread-safe. Errors read "file:line: kind: what was found". A row longer than max_length is an error when the rule is
  // `drop`.
  Result<Sample> encode(const Conversation& conversation) const;
  // As encode(), but `split` yields several samples.
  Result<std::vector<Sample>> encode_split(const Conversation& conversation) const;
  // Preference data: the chosen and the rejected conversation.
  Result<std::pair<Sample, Sample>> encode_pair(const Conversation& conversation) const;
  // Everything up to the generation prompt; a trailing assistant message is kept open to be continued. A conversation with media
  // needs an output for them.
  Result<std::vector<text::TokenId>> encode_prompt(const Conversation& conversation, std::vector<Picture>* pictures = nullptr,
                                                   std::vector<Sound>* sounds = nullptr) const;

  const EncodeConfig& config() const { return config_; }
  const PictureConfig* pictures() const { return pictures_.get(); }  // null: the model takes no images
  const SoundConfig* sounds() const { return sounds_.get(); }        // null: the model takes no audio
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& template_name() const { return template_name_; }
  virtual std::vector<std::string> stop_words() const = 0;
  virtual text::TokenId eos() const;            // -1 when there is none
  std::vector<text::TokenId> stop_ids() const;  // EOS and every stop word that is one token

 protected:
  Encoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, std::string template_name);

  // Neither truncated nor checked for length unless the dialect's own rule truncates. May throw text::FormatError or
  // Json::exception.
  virtual Sample encode_untruncated(const Conversation& conversation) const = 0;
  virtual std::pair<Sample, Sample> encode_untruncated_pair(const Conversation& conversation) const;
  virtual std::vector<text::TokenId> encode_generation_prompt(const Conversation& conversation) const = 0;

  std::vector<text::TokenId> tokens(std::string_view text, bool guarded = false) const;
  bool spells_special_token(const std::string& text) const;

  EncodeConfig config_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const PictureConfig> pictures_;
  std::shared_ptr<const SoundConfig> sounds_;
  std::string template_name_;
  std::vector<std::string> turn_tokens_;

 private:
  void warn_of_turn_tokens(const Conversation& conversation) const;
  static std::shared_ptr<Encoder> make_for_text(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                                                const ModelIdentity& model);
};

// The rejected alternative as a separate conversation.
Conversation rejected_conversation(const Conversation& conversation);

}  // namespace hone::data

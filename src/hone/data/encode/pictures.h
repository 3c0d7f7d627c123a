// Pictures of a row: planned from their headers when the row is encoded, decoded when its batch is made.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/media/image_processor.h"
#include "hone/media/medium.h"
#include "hone/text/tokenizer.h"

namespace hone::data {

// What a model makes of videos, whose frames become as large as these bounds and their number allow.
struct VideoConfig {
  int64_t min_tokens = 128, max_tokens = 768;  // of a frame, in cells
  double total_tokens = 128000;                // of a video, of which nine in ten are taken
  double fps = 2;                              // of frames that are given as a list
  double tokens_per_second = 0;                // positions that a second takes; 0: a pair of frames takes one
  bool has_timestamps = false;                 // the time of every pair is written before it (Qwen3-VL)
  bool counts_time = false;                    // what follows begins behind its last time too (Omni); else behind its sides alone
};

// What a model makes of pictures.
struct PictureConfig {
  media::ImageProcessorConfig processor;
  media::SourceRules sources;
  VideoConfig video;
  text::TokenId start = -1, pad = -1, end = -1;  // <|vision_start|><|image_pad|>…<|vision_end|>
  text::TokenId video_pad = -1;                  // <|video_pad|>; -1: the model takes no videos
  std::string text_behind = {};                  // of every picture
  bool has_axes = true;                          // positions of time, height and width (M-RoPE)
};

struct Picture {
  std::string source;
  media::ImagePlan plan;
  std::shared_ptr<const PictureConfig> config;
  size_t first = 0;                      // of its `plan.tokens` placeholders in the ids of the sample
  std::vector<std::string> frames = {};  // of a video, or of a part of it: `plan` has the first steps of each
  double interval = 1;                   // positions from one pair of frames to the next
  std::string text_before = {};

  bool is_video() const { return !frames.empty(); }
  text::TokenId placeholder() const { return is_video() ? config->video_pad : config->pad; }
  media::ImageSize seen() const;  // what the tower sees of it, or what is cut into tiles
};

// Of a row: images, and the parts of each video.
struct PlannedMedia {
  std::vector<Picture> images;
  std::vector<std::vector<Picture>> videos;
  bool empty() const { return images.empty() && videos.empty(); }
};

// Each picture's size is read; nothing is decoded. Errors name the picture.
Result<std::vector<Picture>> plan_pictures(const std::vector<std::string>& sources,
                                           const std::shared_ptr<const PictureConfig>& config);

// How tags and pictures of a row meet: ms-swift puts missing tags before the first message and leaves surplus ones as text;
// LLaMA-Factory wants as many of one as of the other.
enum class TagRule { add_missing, must_match };

// `messages` with marks in place of each tag, and the pictures in their order. Throws text::FormatError where the rule is broken.
struct MarkedMessages {
  std::vector<Message> messages;
  std::vector<Picture> pictures;
};
MarkedMessages mark_pictures(std::vector<Message> messages, const PlannedMedia& media, TagRule rule,
                             const std::string& image_tag);
inline constexpr const char* kVideoTag = "<video>";
// What the rule asks of the tags of one kind of media; missing ones are added.
void check_tags(std::vector<Message>& messages, size_t media, TagRule rule, const std::string& tag, const char* kind);

// A mark in a text stands for so many placeholders, whatever the text around it spells. Noncharacters of Unicode, which no text
// holds; where one does, it is replaced.
std::string picture_mark(int64_t tokens, bool is_video);
std::string sound_mark(int64_t tokens);
struct MarkedPiece {
  std::string_view text;
  int64_t placeholders = 0;  // behind the text; 0: none
  bool is_video = false, is_sound = false;
};
std::vector<MarkedPiece> split_at_marks(std::string_view text);
bool has_mark(std::string_view text);
std::string without_picture_marks(std::string text);  // what somebody wrote

// "image a.png: 640 x 480 pixels, read as 644 x 476, 391 tokens", for people.
std::string describe(const Picture& picture);

// The rows of one picture, decoded: plan.patches() of processor.row_size() floats.
Result<std::vector<float>> patch_rows(const Picture& picture);

}  // namespace hone::data

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

// What a model makes of pictures.
struct PictureConfig {
  media::ImageProcessorConfig processor;
  media::SourceRules sources;
  text::TokenId start = -1, pad = -1, end = -1;  // <|vision_start|><|image_pad|>…<|vision_end|>
  std::string text_behind = {};                  // of every picture
  bool has_axes = true;                          // positions of time, height and width (M-RoPE)
};

struct Picture {
  std::string source;
  media::ImagePlan plan;
  std::shared_ptr<const PictureConfig> config;
  size_t first = 0;  // of its `plan.tokens` placeholders in the ids of the sample
};

// Each picture's size is read; nothing is decoded. Errors name the picture.
Result<std::vector<Picture>> plan_pictures(const std::vector<std::string>& sources,
                                           const std::shared_ptr<const PictureConfig>& config);

// How tags and pictures of a row meet: ms-swift puts missing tags before the first message and leaves surplus ones as text;
// LLaMA-Factory wants as many of one as of the other.
enum class TagRule { add_missing, must_match };

// `messages` with a mark in place of each tag. Throws text::FormatError where the rule is broken.
std::vector<Message> mark_pictures(std::vector<Message> messages, const std::vector<Picture>& pictures, TagRule rule,
                                   const std::string& tag);

// A mark in a text stands for so many placeholders, whatever the text around it spells. Noncharacters of Unicode, which no text
// holds; where one does, it is replaced.
std::string picture_mark(int64_t tokens);
struct MarkedPiece {
  std::string_view text;
  int64_t placeholders = 0;  // behind the text; 0: none
};
std::vector<MarkedPiece> split_at_marks(std::string_view text);
bool has_mark(std::string_view text);
std::string without_picture_marks(std::string text);  // what somebody wrote

// "image a.png: 640 x 480 pixels, read as 644 x 476, 391 tokens", for people.
std::string describe(const Picture& picture);

// The rows of one picture, decoded: plan.patches() of processor.row_size() floats.
Result<std::vector<float>> patch_rows(const Picture& picture);

}  // namespace hone::data

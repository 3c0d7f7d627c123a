// Images of a row: headers are read when the row is encoded, and the images are decoded when its batch is built.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/media/decode_video.h"
#include "hone/media/image_processor.h"
#include "hone/media/medium.h"
#include "hone/text/tokenizer.h"

namespace hone::data {

// How the placeholders of a video and its audio are ordered.
enum class SoundMix {
  none,    // audio is not read
  chunks,  // chunks of `chunk_seconds`, images first; the markers of both share one position (Qwen2.5-Omni)
  tokens,  // one by one by time, images first if equal (Qwen3-Omni)
};

// The transformers version whose video positions are used: the following text starts after its sides (5), or after all of it,
// with its seconds truncated to integers (4.57).
enum class VideoPositions { transformers_5, transformers_4 };

// How a model takes the frames of a video.
enum class FrameKind {
  joined,   // all are brought to one size, and the tower joins groups of them (Qwen)
  images,   // each is an image of its own, with its number before it (InternVL)
  stacked,  // one medium, of frames that are prepared as images are (Ovis2.5)
};

// How a model samples and resizes videos: frames become as large as these bounds and their number allow.
struct VideoConfig {
  FrameKind frame_kind = FrameKind::joined;
  int64_t min_tokens = 128, max_tokens = 768;  // of a frame, in cells
  double total_tokens = 128000;                // of a video, of which nine in ten are taken
  double fps = 2;                              // frames taken of a second of a file, or given as a list
  int64_t min_frames = 4, max_frames = 768;    // of a file
  double tokens_per_second = 0;                // positions that a second takes; 0: a pair of frames takes one
  bool has_timestamps = false;                 // the time of every pair is written before it (Qwen3-VL)
  int64_t segments = 0;                        // above 0: this many frames of a file, whatever its length (InternVL, Ovis2.5)
  int64_t max_tiles = 1;                       // of a frame, and in ms-swift of images next to it (InternVL)
  bool counts_time = false;                    // what follows starts after its last time too (Omni); else after its sides alone
  VideoPositions positions = VideoPositions::transformers_5;
  SoundMix sound = SoundMix::none;
  double chunk_seconds = 2;  // of SoundMix::chunks
  // factory: what it makes of a frame, then the bounds of transformers' processor, of a frame or, with timestamps, of all.
  // Ovis2.5: `max_pixels` of a frame.
  int64_t frame_min_pixels = 256, frame_max_pixels = 65536;
  int64_t min_pixels = 0, max_pixels = 0;
};

// How a model writes boxes and names of objects in an image.
struct BoxConfig {
  enum class Style { plain, list, qwen, intern } style = Style::plain;
  bool in_pixels = false;     // in pixels of the resized image; false: in thousandths of its sides
  bool reads_objects = true;  // LLaMA-Factory's rows have none
};

// The image settings of a model.
struct PictureConfig {
  media::ImageProcessorConfig processor;
  media::SourceRules sources;
  VideoConfig video;
  BoxConfig boxes;
  text::TokenId start = -1, pad = -1, end = -1;   // <|vision_start|><|image_pad|>…<|vision_end|>
  text::TokenId video_pad = -1;                   // <|video_pad|>; -1: the model takes no videos
  std::string text_before = {}, text_after = {};  // of every picture
  bool has_text_apart = false;                    // whose tokens do not depend on their neighbours
  bool has_axes = true;                           // positions of time, height and width (M-RoPE)
  bool uses_factory_rule() const { return processor.rule == media::ResizeRule::factory; }
};

// Consecutive placeholders of one kind.
enum class Placeholder { image, video, sound };
struct PlaceholderRun {
  int64_t tokens = 0;
  Placeholder kind = Placeholder::image;
};

struct Picture {
  std::string source;
  media::ImageGeometry geometry;
  std::shared_ptr<const PictureConfig> config;
  size_t first = 0;                      // of its `geometry.tokens` placeholders in the ids of the sample
  std::vector<std::string> frames = {};  // of a list that is a video, or of a part of it: `geometry` has the first steps of each
  std::shared_ptr<const media::VideoHeader> file = {};  // of a video file, the same in all its parts, which are decoded together
  std::vector<int64_t> numbers = {};                    // of its frames
  float seconds = 0;                                    // from one pair of frames to the next
  float interval = 1;                                   // the same in positions
  std::string text_before = {}, text_after = {};
  std::vector<Picture> crops = {};         // crops that follow it (Gemma 3's pan and scan)
  std::vector<PlaceholderRun> mixed = {};  // of a video that is read with its sound: all of both, in their order
  std::vector<size_t> scattered = {};      // of such a video: where its placeholders are

  bool is_video() const { return !frames.empty() || file; }
  size_t position(int64_t i) const {
    return scattered.empty() ? first + static_cast<size_t>(i) : scattered[static_cast<size_t>(i)];
  }
  float time(int64_t pair) const;  // in positions from the video's first
  text::TokenId placeholder() const { return is_video() ? config->video_pad : config->pad; }
  media::ImageSize input_size() const;  // the size of the tower's input, or of what is split into tiles
};

// Images of a row, and the parts of each video.
struct VisualMedia {
  std::vector<Picture> images;
  std::vector<std::vector<Picture>> videos;
  bool empty() const { return images.empty() && videos.empty(); }
};

// Reads the size of an image without decoding.
Result<media::ImageGeometry> read_geometry(const media::Medium& medium, const PictureConfig& config);
// The picture of each source, which is not decoded yet. Errors name the image.
Result<std::vector<Picture>> open_pictures(const std::vector<std::string>& sources,
                                           const std::shared_ptr<const PictureConfig>& config);

// How tags and images of a row are matched: ms-swift puts missing tags before the first message and leaves surplus ones as text;
// LLaMA-Factory requires equal numbers.
enum class TagRule { add_missing, must_match };

// `messages` with markers in place of each tag, and the images in order. Throws text::FormatError if the rule is violated.
struct MarkedMessages {
  std::vector<Message> messages;
  std::vector<Picture> pictures;
};
MarkedMessages mark_pictures(std::vector<Message> messages, const VisualMedia& media, TagRule rule, const MediaTags& tags);
// Applies the rule to the tags of one kind of media; missing ones are added.
void check_tags(std::vector<Message>& messages, size_t media, TagRule rule, const std::string& tag, const char* kind);

// A marker in a text is replaced by placeholders, whatever the surrounding text is. Markers are Unicode noncharacters, which
// valid text does not contain; those that a text contains are replaced before it is marked.
std::string media_mark(std::span<const PlaceholderRun> runs);
struct MarkedPiece {
  std::string_view text;
  std::vector<PlaceholderRun> runs = {};  // after the text; several: a video with its sound
};
std::vector<MarkedPiece> split_at_marks(std::string_view text);
bool has_mark(std::string_view text);
std::string without_picture_marks(std::string text);  // the text as the user wrote it

// "image a.png: 640 x 480 pixels, read as 644 x 476, 391 tokens", for display.
std::string describe(const Picture& picture);

// The image at `first`, with its crops or the following parts of the same video file.
std::span<const Picture> decoded_together(const std::vector<Picture>& pictures, size_t first);
// The number of floats in their rows: geometry.patches() times processor.row_size() for each.
size_t patch_row_values(std::span<const Picture> pictures);
// Whether the rows of both are the same: the same medium, prepared in the same way.
bool have_equal_rows(std::span<const Picture> a, std::span<const Picture> b);
// Decodes them into their rows, or, if `rows` has no more room, into rows of one frame of still images. Errors name the image.
std::optional<Error> fill_patch_rows(std::span<const Picture> pictures, std::span<float> rows);

}  // namespace hone::data

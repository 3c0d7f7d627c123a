#include "hone/data/batches/image_batch.h"

#include "hone/base/log.h"
#include "hone/data/batches/audio_batch.h"

namespace hone::data {

void forget_labels(Sample& sample, const std::string& why) {
  log::warning("{}: not learned: {}", sample.origin.str(), why);
  std::fill(sample.labels.begin(), sample.labels.end(), kIgnore);
}

void PositionAxes::add_text(size_t count) {
  for (size_t i = 0; i < count; ++i, ++next_) add(next_, next_, next_);
}

void PositionAxes::add(int64_t time, int64_t y, int64_t x) {
  axes_[0].push_back(time);
  axes_[1].push_back(y);
  axes_[2].push_back(x);
}

namespace {

// Positions of an image's tokens, relative to its first.
struct Cell {
  int64_t time, y, x;
  int64_t last() const { return std::max({time, y, x}); }
};

std::vector<Cell> cells_of(const Picture& picture) {
  const int64_t merge = picture.config->processor.merge_size;
  std::vector<Cell> cells;
  for (int64_t frame = 0; frame < picture.geometry.frames; ++frame)
    for (int64_t y = 0; y < picture.geometry.grid_h / merge; ++y)
      for (int64_t x = 0; x < picture.geometry.grid_w / merge; ++x)
        cells.push_back({static_cast<int64_t>(picture.time(frame)), y, x});
  return cells;
}

}  // namespace

void PositionAxes::add_picture(const Picture& picture) {
  const auto cells = cells_of(picture);
  for (const auto& cell : cells) add(next_ + cell.time, next_ + cell.y, next_ + cell.x);
  const auto& last = cells.back();
  const bool behind_time = picture.config->video.counts_time || picture.config->video.positions == VideoPositions::transformers_4;
  next_ += 1 + std::max({last.y, last.x, behind_time ? last.time : 0});
}

// Both start at the same position. The following text starts after the last chunk added, as in transformers.
void PositionAxes::add_mixed(const Picture& video) {
  const bool shares_marks = video.config->video.sound == SoundMix::chunks;
  auto add_marks = [&] {
    add(next_, next_, next_);
    if (!shares_marks) ++next_;
    add(next_, next_, next_);
    ++next_;
  };
  add_marks();
  const auto cells = cells_of(video);
  const int64_t begin = next_;
  size_t next_cell = 0;
  int64_t next_sound = 0;
  for (const auto& run : video.mixed) {
    int64_t last = 0;
    for (int64_t i = 0; i < run.tokens; ++i) {
      const bool is_sound = run.kind == Placeholder::sound;
      const auto cell = is_sound ? Cell{next_sound, next_sound, next_sound} : cells[next_cell];
      is_sound ? void(++next_sound) : void(++next_cell);
      add(begin + cell.time, begin + cell.y, begin + cell.x);
      last = std::max(last, cell.last());
    }
    next_ = begin + last + 1;
  }
  add_marks();
}

void PositionAxes::append(const Sample& sample, int64_t first) {
  next_ = first;
  size_t at = 0;
  for (const auto& picture : sample.pictures) {
    if (!picture.config->has_axes) break;  // it takes positions like text
    has_axes_ = true;
    if (picture.mixed.empty()) {
      add_text(picture.first - at);
      add_picture(picture);
      at = picture.first + static_cast<size_t>(picture.geometry.tokens);
    } else {  // plus two marker tokens on either side
      add_text(picture.first - 2 - at);
      add_mixed(picture);
      at = picture.first + 2;
      for (const auto& run : picture.mixed) at += static_cast<size_t>(run.tokens);
    }
  }
  add_text(sample.ids.size() - at);
}

Tensor PositionAxes::tensor() const {
  auto axis = [&](size_t i) { return at::tensor(axes_[i], at::kLong); };
  return has_axes_ ? at::stack({axis(0), axis(1), axis(2)}) : axis(0);
}

namespace {

// The frames that rows hold: those of a still image are equal, so that one is enough if there are no videos.
int64_t frames_in_rows(const std::vector<SamplePack>& packs) {
  int64_t frames = 1;
  for (const auto& pack : packs)
    for (const auto& sample : pack)
      for (const auto& picture : sample.pictures)
        if (picture.is_video()) frames = picture.config->processor.temporal_patch_size;
  return frames;
}

// Rows of a batch that are filled already, for media that it has more than once.
class FilledRows {
 public:
  // Copies the rows of an equal medium, if there is one.
  bool copy(std::span<const Picture> pictures, std::span<float> rows) const {
    for (const auto& [equal, values] : filled_)
      if (have_equal_rows(equal, pictures)) return std::ranges::copy(values, rows.begin()), true;
    return false;
  }
  void add(std::span<const Picture> pictures, std::span<const float> rows) { filled_.emplace_back(pictures, rows); }

 private:
  std::vector<std::pair<std::span<const Picture>, std::span<const float>>> filled_;
};

// `failed` receives every image that cannot be decoded; its patch rows stay zero.
template <class Failed>
BatchImages decode_images(std::vector<SamplePack>& packs, Failed failed, const PromptDecoding& decoding) {
  BatchImages images;
  std::vector<int64_t> rows;
  int64_t patches = 0, row_size = 0, first = 0, temporal = 1;
  for (const auto& pack : packs)
    for (const auto& sample : pack) {
      for (const auto& picture : sample.pictures) {
        images.grids.push_back({picture.geometry.frames, picture.geometry.grid_h, picture.geometry.grid_w, picture.is_video()});
        images.tokens.push_back(picture.geometry.tokens);
        patches += picture.geometry.patches();
        row_size = picture.config->processor.row_size(), temporal = picture.config->processor.temporal_patch_size;
        for (int64_t i = 0; i < picture.geometry.tokens; ++i) rows.push_back(first + static_cast<int64_t>(picture.position(i)));
      }
      first += static_cast<int64_t>(sample.ids.size());
    }
  if (patches == 0) return images;
  images.rows_n = at::tensor(rows, at::kLong);
  const int64_t repeated = temporal / frames_in_rows(packs);
  images.patches_pr = at::empty({patches, row_size / repeated}, at::kFloat);
  float* to = images.patches_pr.data_ptr<float>();
  FilledRows filled;
  for (auto& pack : packs)
    for (auto& sample : pack)
      for (size_t next = 0; next < sample.pictures.size();) {
        const auto pictures = decoded_together(sample.pictures, next);
        const std::span rows(to, patch_row_values(pictures) / static_cast<size_t>(repeated));
        to += rows.size();
        next += pictures.size();
        if (filled.copy(pictures, rows)) continue;
        if (decoding.is_cancelled()) return images;
        if (const auto problem = decoding.fill(pictures, rows)) {
          std::ranges::fill(rows, 0.0f);
          failed(sample, problem->message);
        } else {
          filled.add(pictures, rows);
        }
      }
  return images;
}

}  // namespace

bool has_pictures(std::span<const SamplePack> packs) {
  for (const auto& pack : packs)
    for (const auto& sample : pack)
      if (!sample.pictures.empty()) return true;
  return false;
}

BatchImages load_images(std::vector<SamplePack>& packs) { return decode_images(packs, forget_labels, {}); }

namespace {

template <class Failed>
Batch batch_of_prompt(Sample sample, Failed failed, const PromptDecoding& decoding) {
  std::vector<SamplePack> packs{{std::move(sample)}};
  Batch batch;
  batch.images = decode_images(packs, failed, decoding);
  batch.audio = decode_sounds(packs, failed, decoding.is_cancelled);
  PositionAxes positions;
  positions.append(packs[0][0], 0);
  batch.positions_t = positions.tensor();
  return batch;
}

}  // namespace

Result<Batch> prompt_batch(std::vector<text::TokenId> ids, std::vector<Picture> pictures, std::vector<Sound> sounds,
                           const PromptDecoding& decoding) {
  Sample sample;
  sample.ids = std::move(ids);
  sample.pictures = std::move(pictures);
  sample.sounds = std::move(sounds);
  std::string problem;  // the first one, after which nothing is decoded
  const auto is_over = [&] {
    if (problem.empty() && decoding.is_cancelled()) problem = "cancelled";
    return !problem.empty();
  };
  auto batch =
      batch_of_prompt(std::move(sample), [&](const Sample&, const std::string& why) { problem = why; }, {decoding.fill, is_over});
  if (!problem.empty()) return Error{problem};
  return batch;
}

Batch prompt_batch_of(Sample sample, const PromptDecoding& decoding) {
  return batch_of_prompt(std::move(sample), forget_labels, decoding);
}

}  // namespace hone::data

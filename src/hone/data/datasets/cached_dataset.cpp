#include "hone/data/datasets/cached_dataset.h"

#include <cstring>
#include <future>
#include <optional>
#include <unordered_map>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/datasets/write_rows.h"

namespace hone::data {
namespace {

constexpr const char* kAbout = "encoded_rows.json";
constexpr const char* kTokens = "tokens.bin";  // int32 ids, then int32 labels, then float32 weights if any
constexpr const char* kParts = "parts.bin";    // int64 pairs: row, end of its tokens
// Rows with media, one a line: their media are read during the run, so their tokens are counted there too. Such a row is a part
// without tokens.
constexpr const char* kMediaRows = "media_rows.jsonl";
constexpr int kCacheFormat = 1, kCacheFormatWithMedia = 2;
constexpr std::string_view kPurposes[] = {"train", "rlhf", "kto"};

struct EncodedPart {
  int64_t row, end;
};

template <class T>
void append_bytes(std::string& out, const std::vector<T>& values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

UserError not_a_cached_dataset(const fs::path& folder, const std::string& what) {
  return UserError(ExitCode::bad_data, fmt::format("{}: {}", folder.string(), what),
                   "write it again with `to_cached_dataset` of export");
}

class EncodedRows final : public ConversationSource {
 public:
  EncodedRows(const fs::path& folder, const text::Tokenizer& tokenizer, std::string_view wanted_for)
      : folder_(folder),
        about_(read_config_file((folder / kAbout).string())),
        tokens_(folder / kTokens),
        parts_file_(folder / kParts) {
    const int format = about_.value("format", 0);
    if (format != kCacheFormat && format != kCacheFormatWithMedia) throw not_a_cached_dataset(folder, "of another version");
    if (auto purpose = about_.value("purpose", std::string(kPurposes[0])); purpose != wanted_for)
      throw UserError(ExitCode::usage, fmt::format("{} was written with `template_mode` {}", folder.string(), purpose),
                      fmt::format("rows of this run are written with `template_mode` {}", wanted_for));
    if (about_.value("vocabulary", size_t{0}) != tokenizer.size())
      throw not_a_cached_dataset(folder, fmt::format("made by a tokenizer of {} tokens, this one has {}",
                                                     about_.value("vocabulary", size_t{0}), tokenizer.size()));
    weighted_ = about_.value("weighted", false);
    total_ = about_.value("tokens", int64_t{-1});
    read_parts();
    read_grades(wanted_for == kPurposes[static_cast<size_t>(TemplateMode::kto)]);
    if (format == kCacheFormatWithMedia) read_media_rows();
    auto wanted = static_cast<size_t>(total_) * (weighted_ ? 12 : 8);
    if (total_ < 0 || tokens_.text().size() != wanted)
      throw not_a_cached_dataset(folder, fmt::format("{} has {} bytes, expected {}", kTokens, tokens_.text().size(), wanted));
  }

  int64_t size() const override { return static_cast<int64_t>(first_part_.size()) - 1; }

  Result<Conversation> at(int64_t index) const override {
    if (const size_t part = first_part_[static_cast<size_t>(index)]; begin_of(part) == parts_[part].end) return media_row(part);
    Conversation conversation;
    auto samples = std::make_shared<std::vector<Sample>>();
    for (size_t part = first_part_[static_cast<size_t>(index)]; part < first_part_[static_cast<size_t>(index) + 1]; ++part)
      samples->push_back(sample(part));
    conversation.encoded = std::move(samples);
    return conversation;
  }

 private:
  void read_parts() {
    auto bytes = parts_file_.text();
    if (bytes.size() % sizeof(EncodedPart) != 0) throw not_a_cached_dataset(folder_, fmt::format("{} is truncated", kParts));
    parts_.resize(bytes.size() / sizeof(EncodedPart));
    std::memcpy(parts_.data(), bytes.data(), bytes.size());
    int64_t end = 0, row = -1;
    for (size_t part = 0; part < parts_.size(); ++part) {
      if (parts_[part].end < end || parts_[part].end > total_ || parts_[part].row < row)
        throw not_a_cached_dataset(folder_, fmt::format("{} is damaged", kParts));
      if (parts_[part].row != row) first_part_.push_back(part);
      end = parts_[part].end, row = parts_[part].row;
    }
    first_part_.push_back(parts_.size());
    const auto channels = about_.value("channels", Json::array());
    for (const auto& channel : channels) channels_.push_back(channel.is_string() ? channel.get<std::string>() : "");
  }

  void read_grades(bool required) {
    const auto grades = about_.find("labels");
    if (grades == about_.end() && !required) return;
    if (grades == about_.end() || !grades->is_array() || grades->size() != parts_.size())
      throw not_a_cached_dataset(folder_, fmt::format("\"labels\" of {} has no value for each row", kAbout));
    for (const auto& grade : *grades) {
      if (!grade.is_boolean() && !grade.is_number() && (required || !grade.is_null()))
        throw not_a_cached_dataset(folder_, fmt::format("\"labels\" of {} has the value {}", kAbout, grade.dump()));
      grades_.push_back(grade.is_null()      ? std::nullopt
                        : grade.is_boolean() ? std::optional(grade.get<bool>() ? 1.0F : 0.0F)
                                             : std::optional(grade.get<float>()));
    }
  }

  int64_t begin_of(size_t part) const { return part == 0 ? 0 : parts_[part - 1].end; }

  void read_media_rows() {
    media_file_.emplace(folder_ / kMediaRows);
    const auto text = media_file_->text();
    size_t at = 0;
    for (size_t part = 0; part < parts_.size(); ++part) {
      if (begin_of(part) != parts_[part].end) continue;
      const size_t end = text.find('\n', at);
      if (end == text.npos) throw not_a_cached_dataset(folder_, fmt::format("{} is truncated", kMediaRows));
      media_rows_[part] = {static_cast<int64_t>(media_rows_.size()) + 1, text.substr(at, end - at)};
      at = end + 1;
    }
    if (at != text.size()) throw not_a_cached_dataset(folder_, fmt::format("{} has more rows than {}", kMediaRows, kParts));
  }

  Result<Conversation> media_row(size_t part) const {
    const auto found = media_rows_.find(part);
    if (found == media_rows_.end()) return error("{}: a row without tokens", folder_.string());
    const RowOrigin origin{(folder_ / kMediaRows).string(), found->second.line, folder_.string()};
    const auto row = parse_json(found->second.text);
    if (!row) return error("{}: {}", origin.str(), row.error());
    try {
      Json columns = *row;
      const auto tags = columns.at("media_tags").get<std::vector<std::string>>();
      const bool plain_text = columns.at("plain_text").get<bool>();
      columns.erase("media_tags"), columns.erase("plain_text");
      auto conversation = conversation_of(columns);
      conversation.tags = {tags.at(0), tags.at(1), tags.at(2)};
      conversation.plain_text = plain_text;
      conversation.origin = origin;
      if (part < grades_.size() && grades_[part]) conversation.label = *grades_[part] > 0;
      return conversation;
    } catch (const std::exception& problem) {  // a damaged line
      return error("{}: {}", origin.str(), problem.what());
    }
  }

  template <class T>
  std::vector<T> slice(int64_t section, int64_t begin, int64_t end) const {
    std::vector<T> values(static_cast<size_t>(end - begin));
    std::memcpy(values.data(), tokens_.text().data() + (section * total_ + begin) * 4, values.size() * sizeof(T));
    return values;
  }

  Sample sample(size_t part) const {
    int64_t begin = begin_of(part), end = parts_[part].end;
    Sample sample{.ids = slice<text::TokenId>(0, begin, end), .labels = slice<text::TokenId>(1, begin, end)};
    if (weighted_) sample.loss_scale = slice<float>(2, begin, end);
    if (part < channels_.size()) sample.channel = channels_[part];
    if (part < grades_.size() && grades_[part]) sample.sequence_labels = {*grades_[part]};
    return sample;
  }

  struct MediaRow {
    int64_t line = 0;
    std::string_view text;
  };

  fs::path folder_;
  Json about_;
  MappedFile tokens_, parts_file_;
  std::optional<MappedFile> media_file_;
  std::unordered_map<size_t, MediaRow> media_rows_;  // by part
  bool weighted_ = false;
  int64_t total_ = 0;
  std::vector<EncodedPart> parts_;
  std::vector<size_t> first_part_;  // of each row, and one more
  std::vector<std::string> channels_;
  std::vector<std::optional<float>> grades_;  // of each part: of kto whether it is desirable, of pairs the margin
};

Result<SamplePack> encode_for(TemplateMode purpose, const Encoder& encoder, const Conversation& conversation, int64_t row) {
  LoaderConfig config;
  config.pairs = purpose == TemplateMode::rlhf;
  if (purpose == TemplateMode::kto) config.feedback = {.with_kl_pairs = false};
  return encode_conversation(encoder, conversation, config, row);
}

// All rows in order, encoded in parallel.
std::vector<Result<SamplePack>> encode_all(const ConversationSource& rows, const Encoder& encoder, ThreadPool& pool,
                                           TemplateMode purpose) {
  constexpr int64_t kChunk = 64;
  std::vector<Result<SamplePack>> encoded(static_cast<size_t>(rows.size()), Result<SamplePack>(SamplePack()));
  std::vector<std::future<void>> jobs;
  for (int64_t begin = 0; begin < rows.size(); begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      for (int64_t row = begin; row < std::min(begin + kChunk, rows.size()); ++row) {
        auto conversation = rows.at(row);
        encoded[static_cast<size_t>(row)] =
            conversation ? encode_for(purpose, encoder, *conversation, row) : Result<SamplePack>(Error{conversation.error()});
      }
    }));
  for (auto& job : jobs) job.wait();
  for (auto& job : jobs) job.get();
  return encoded;
}

// A row and what its format found out about it.
Json media_row_of(const Conversation& conversation) {
  Json row = row_of(conversation);
  row["media_tags"] = {conversation.tags.image, conversation.tags.video, conversation.tags.audio};
  row["plain_text"] = conversation.plain_text;
  return row;
}

bool has_media(const SamplePack& row) {
  return std::any_of(row.begin(), row.end(),
                     [](const Sample& sample) { return !sample.pictures.empty() || !sample.sounds.empty(); });
}

}  // namespace

void write_cached_dataset(const fs::path& folder, const ConversationSource& rows, const Encoder& encoder, RowReport& report,
                          ThreadPool& pool, TemplateMode purpose) {
  std::vector<text::TokenId> ids, labels;
  std::vector<float> weights;
  std::vector<EncodedPart> parts;
  Json channels = Json::array(), grades = Json::array();
  bool weighted = false, any_channel = false, any_grade = false;
  std::string media_rows;
  auto encoded = encode_all(rows, encoder, pool, purpose);
  for (size_t index = 0; index < encoded.size(); ++index) {
    auto& row = encoded[index];
    row ? report.good_row() : report.bad_row(row.error());
    if (!row) continue;
    if (has_media(*row)) {
      auto conversation = rows.at(static_cast<int64_t>(index)).or_throw(ExitCode::bad_data, folder.string());
      media_rows += media_row_of(conversation).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
      parts.push_back({static_cast<int64_t>(index), static_cast<int64_t>(ids.size())});
      channels.push_back("");
      grades.push_back(purpose == TemplateMode::kto ? Json(conversation.label.value_or(false)) : Json());
      continue;
    }
    for (auto& sample : *row) {
      HONE_CHECK(!sample.ids.empty(), "row {} has a sample without tokens", index);  // it would read as a row with media
      ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
      labels.insert(labels.end(), sample.labels.begin(), sample.labels.end());
      weighted |= !sample.loss_scale.empty();
      sample.loss_scale.resize(sample.ids.size(), 1.0F);
      weights.insert(weights.end(), sample.loss_scale.begin(), sample.loss_scale.end());
      parts.push_back({sample.row, static_cast<int64_t>(ids.size())});
      any_channel |= !sample.channel.empty();
      channels.push_back(sample.channel);
      const auto& grade = sample.sequence_labels;
      any_grade |= !grade.empty();
      grades.push_back(grade.empty() ? Json() : purpose == TemplateMode::kto ? Json(grade.front() > 0) : Json(grade.front()));
    }
  }
  if (parts.empty())
    throw UserError(ExitCode::bad_data, "the dataset has no usable row\n" + report.summary(),
                    "check the columns, the template and `max_length`");
  std::string tokens, ends;
  append_bytes(tokens, ids);
  append_bytes(tokens, labels);
  if (weighted) append_bytes(tokens, weights);
  append_bytes(ends, parts);
  Json about{{"format", media_rows.empty() ? kCacheFormat : kCacheFormatWithMedia},
             {"vocabulary", encoder.tokenizer().size()},
             {"template", encoder.template_name()},
             {"tokens", ids.size()},
             {"weighted", weighted}};
  if (any_channel) about["channels"] = std::move(channels);
  if (purpose != TemplateMode::train) about["purpose"] = kPurposes[static_cast<size_t>(purpose)];
  if (purpose == TemplateMode::kto || any_grade) about["labels"] = std::move(grades);
  fs::create_directories(folder);
  write_file_atomically(folder / kTokens, tokens);
  write_file_atomically(folder / kParts, ends);
  if (!media_rows.empty()) write_file_atomically(folder / kMediaRows, media_rows);
  write_file_atomically(folder / kAbout, about.dump(2) + "\n");  // written last: it marks the folder as complete
  log::info("{}, {} written to {}", counted(parts.size(), "row"), counted(ids.size(), "token"), folder.string());
}

bool is_cached_dataset(const fs::path& folder) { return fs::is_regular_file(folder / kAbout); }

std::shared_ptr<ConversationSource> open_cached_dataset(const fs::path& folder, const text::Tokenizer& tokenizer,
                                                        TemplateMode purpose) {
  if (!fs::is_directory(folder))
    throw UserError(ExitCode::usage, fmt::format("{}: there is no such folder", folder.string()),
                    "check the path; `to_cached_dataset` of export writes such folders");
  if (!is_cached_dataset(folder)) throw not_a_cached_dataset(folder, fmt::format("has no {}", kAbout));
  return std::make_shared<EncodedRows>(folder, tokenizer, kPurposes[static_cast<size_t>(purpose)]);
}

}  // namespace hone::data

// Stores a teacher's scores in a folder: one file per sequence, named after its tokens, so that later epochs and runs need no
// request.
#include <unistd.h>

#include "hone/base/file.h"
#include "hone/io/safetensors.h"
#include "hone/train/distillation/teacher.h"

namespace hone::train {
namespace {

// FNV-1a over the token ids with two different offsets: 128 bits distinguish all sequences of a dataset.
std::string name_of(const int64_t* ids, int64_t count, int64_t topk) {
  uint64_t low = 0xcbf29ce484222325ull ^ static_cast<uint64_t>(topk), high = 0x9ae16a3b2f90404full;
  for (int64_t i = 0; i < count; ++i)
    for (int shift = 0; shift < 32; shift += 8) {
      const auto byte = static_cast<uint64_t>(ids[i] >> shift) & 0xff;
      low = (low ^ byte) * 0x100000001b3ull;
      high = (high ^ byte) * 0x100000001b3ull;
    }
  return fmt::format("{:016x}{:016x}.safetensors", high, low);
}

class StoredTeacher final : public Teacher {
 public:
  StoredTeacher(fs::path folder, int64_t topk, std::unique_ptr<Teacher> asked)
      : folder_(std::move(folder)), topk_(topk), asked_(std::move(asked)) {
    if (asked_) fs::create_directories(folder_);
    if (!fs::is_directory(folder_))
      throw UserError(ExitCode::usage, fmt::format("{}: there are no stored log-probabilities of a teacher", folder_.string()),
                      "name the teacher too: its scores are stored there");
  }

  TeacherObservation observe(model::CausalLM& student, const data::Batch& batch, const std::vector<std::string>& tags) override {
    const auto tokens = batch.tokens_t.to(at::kCPU);
    const auto* ids = tokens.const_data_ptr<int64_t>();
    std::vector<fs::path> files;
    bool complete = true;
    for (int64_t i = 0; i < batch.segments.count(); ++i) {
      const auto begin = batch.segments.offsets[static_cast<size_t>(i)];
      files.push_back(folder_ / name_of(ids + begin, batch.segments.length(i), topk_));
      complete = complete && fs::is_regular_file(files.back());
    }
    if (complete) return read(files, batch);
    if (!asked_)
      throw UserError(ExitCode::bad_data,
                      fmt::format("{} has no log-probabilities of a sequence of this batch", folder_.string()),
                      "name the teacher too, or train on the rows, max_length and template that were stored");
    const auto observed = asked_->observe(student, batch, tags);
    const auto all = at::arange(tokens.size(0), batch.tokens_t.options());
    const auto scores = asked_->scores(student, observed, all);
    asked_->finish();
    TeacherObservation stored{.scores_tk = scores.scores_nv.to(at::kFloat).contiguous(),
                              .indices_tk = scores.indices_nk.contiguous()};
    write(files, batch, stored);
    return stored;
  }

  TeacherScores scores(model::CausalLM&, const TeacherObservation& observed, const Tensor& positions_n) override {
    return {observed.scores_tk.index_select(0, positions_n), observed.indices_tk.index_select(0, positions_n)};
  }
  model::CausalLM* model() override { return asked_ ? asked_->model() : nullptr; }

 private:
  TeacherObservation read(const std::vector<fs::path>& files, const data::Batch& batch) const {
    TensorList scores, indices;
    for (size_t i = 0; i < files.size(); ++i) {
      io::SafetensorsFile file(files[i]);
      scores.push_back(file.tensor("logps").clone());
      indices.push_back(file.tensor("tokens").to(at::kLong));
      const auto length = batch.segments.length(static_cast<int64_t>(i));
      if (scores.back().dim() != 2 || scores.back().size(0) != length || scores.back().size(1) != topk_ ||
          indices.back().sizes() != scores.back().sizes())
        throw UserError(ExitCode::bad_data,
                        fmt::format("{}: does not hold {} tokens for each of {} positions", files[i].string(), topk_, length),
                        "remove it, and name the teacher so that it is stored again");
    }
    return {.scores_tk = at::cat(scores).to(batch.tokens_t.device()), .indices_tk = at::cat(indices).to(batch.tokens_t.device())};
  }

  // Written under a temporary name first: processes may write the same sequence concurrently.
  void write(const std::vector<fs::path>& files, const data::Batch& batch, const TeacherObservation& observed) const {
    const auto scores = observed.scores_tk.to(at::kCPU), indices = observed.indices_tk.to(at::kCPU, at::kInt);
    for (size_t i = 0; i < files.size(); ++i) {
      const auto begin = batch.segments.offsets[i], length = batch.segments.length(static_cast<int64_t>(i));
      auto unfinished = files[i];
      unfinished += fmt::format(".{}", ::getpid());
      io::write_safetensors(unfinished, {io::TensorSource::of("logps", scores.narrow(0, begin, length).contiguous()),
                                         io::TensorSource::of("tokens", indices.narrow(0, begin, length).contiguous())});
      fs::rename(unfinished, files[i]);
    }
  }

  fs::path folder_;
  int64_t topk_;
  std::unique_ptr<Teacher> asked_;
};

}  // namespace

std::unique_ptr<Teacher> make_stored_teacher(const std::filesystem::path& folder, int64_t topk, std::unique_ptr<Teacher> asked) {
  return std::make_unique<StoredTeacher>(folder, topk, std::move(asked));
}

}  // namespace hone::train

// Server-side datasets of Twinkle's client: rows as JSON, in memory.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "hone/base/json.h"
#include "hone/serve/chat/served_model.h"

namespace hone::tinker {

class TwinkleDataset;

// Methods that a client calls by name. All throw RequestError.
class TwinkleProcessor {
 public:
  virtual ~TwinkleProcessor() = default;
  virtual Json call(const std::string& function, const Json& arguments) = 0;
  virtual const TwinkleDataset& dataset() const = 0;  // itself, or the one whose rows it returns
};

// Throws RequestError for an argument of `where` that is neither in `known` nor only about how rows are mapped.
void require_known(const Json& arguments, std::initializer_list<std::string_view> known, const char* where);

class TwinkleDataset : public TwinkleProcessor {
 public:
  // Files named by clients are below `root`; "" allows none.
  TwinkleDataset(const serve::ServedModel& served, std::filesystem::path root, const Json& arguments);
  Json call(const std::string& function, const Json& arguments) override;
  const TwinkleDataset& dataset() const override { return *this; }
  size_t bytes() const { return bytes_; }  // of its rows in memory, about
  const std::vector<Json>& rows() const;

 private:
  struct Part {
    std::string id;
    std::vector<Json> rows;
  };
  void change(const std::string& function, const Json& arguments);
  void add(const Json& meta);
  std::vector<Json> read(const Json& meta) const;
  std::vector<Json>& part(const Json& arguments);
  void set_template(const Json& arguments);
  void mix(bool interleave);
  void encode(const Json& arguments);
  std::optional<Json> encoded(const Json& row, bool add_generation_prompt) const;

  const serve::ServedModel& served_;
  std::filesystem::path root_;
  std::vector<Part> parts_;
  std::optional<std::vector<Json>> mixed_;
  std::atomic<size_t> bytes_ = 0;  // read by requests of other processors
  bool has_template_ = false;
  int64_t max_length_ = 8192;
  std::string truncation_ = "raise";
};

}  // namespace hone::tinker

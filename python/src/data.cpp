// Template, Dataset, Batch and DataLoader.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "hone/data/batches/batch_sampler.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/formats/format.h"
#include "hone/hub/locate.h"
#include "hone/text/new_tokens.h"
#include "objects.h"
#include "tensor_caster.h"

namespace hone::python {
namespace {

using Tokens = std::vector<text::TokenId>;
using Encoded = std::tuple<Tokens, Tokens, std::vector<float>, std::optional<Media>>;  // ids, labels, weights

struct Dataset {
  std::shared_ptr<const data::ConversationSource> rows;
  std::shared_ptr<const data::Encoder> encoder;
};

// Rows that a Python program holds.
class MemoryRows final : public data::ConversationSource {
 public:
  explicit MemoryRows(std::vector<Result<data::Conversation>> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Result<data::Conversation> at(int64_t index) const override { return rows_.at(static_cast<size_t>(index)); }

 private:
  std::vector<Result<data::Conversation>> rows_;
};

Json parse_row(const std::string& text) {
  auto row = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object())
    throw UserError(ExitCode::bad_data, "a row is not a dictionary",
                    "expected one such as {\"messages\": [{\"role\": \"user\", …}]}");
  return row;
}

std::shared_ptr<const data::ConversationSource> read_rows(const std::vector<std::string>& texts, bool prompts) {
  if (texts.empty()) throw UserError(ExitCode::usage, "there are no rows", "give one or more");
  std::vector<Json> fields;
  std::vector<std::string> columns;
  for (const auto& text : texts) {
    fields.push_back(parse_row(text));
    for (const auto& [column, value] : fields.back().items())
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
  }
  auto format = data::swift_format({.demands = {.prompts_only = prompts}}, columns);
  std::vector<Result<data::Conversation>> rows;
  for (size_t i = 0; i < fields.size(); ++i)
    rows.push_back(format->convert({std::move(fields[i]), {"rows", static_cast<int64_t>(i) + 1, "rows"}}));
  return std::make_shared<MemoryRows>(std::move(rows));
}

std::shared_ptr<const data::ConversationSource> open_words(const std::vector<std::string>& words, int64_t seed, bool shuffle) {
  data::DatasetConfig config;
  config.datasets = words;
  config.data_seed = seed;
  config.shuffle = shuffle;
  config.resolver = [](const std::string& id, const std::string& hub) {
    return hub::locate_dataset(id, hub == "hf"   ? hub::Site::hugging_face
                                   : hub == "ms" ? hub::Site::modelscope
                                                 : hub::config().site);
  };
  auto rows = data::open_datasets(config).train;
  if (!rows) throw UserError(ExitCode::usage, "there are no rows", "name a file or a dataset of a hub, or give rows");
  return rows;
}

data::Conversation one_row(const std::string& text, bool prompt) {
  return read_rows({text}, prompt)->at(0).or_throw(ExitCode::bad_data, "row");
}

Encoded encoded(const data::Sample& sample) {
  std::optional<Media> media;
  if (!sample.pictures.empty() || !sample.sounds.empty()) media = Media{sample.pictures, sample.sounds};
  return {sample.ids, sample.labels, sample.loss_scale, std::move(media)};
}

data::Truncation truncation_called(const std::string& name) {
  if (name == "delete") return data::Truncation::drop;
  if (name == "left") return data::Truncation::left;
  if (name == "right") return data::Truncation::right;
  if (name == "split") return data::Truncation::split;
  throw UserError(ExitCode::usage, fmt::format("truncation is \"{}\"", name), "expected delete, left, right or split");
}

// The encoder of a model's folder; none of its weights are read.
Template make_template(const fs::path& folder, std::shared_ptr<const text::Tokenizer> tokenizer,
                       const std::optional<std::string>& name, const std::optional<std::string>& system, int64_t max_length,
                       const std::string& truncation, std::optional<bool> enable_thinking) {
  auto config = data::dialect_defaults(data::Dialect::swift);
  if (name) config.template_name = *name;
  config.system = system;
  config.max_length = max_length;
  config.truncation = truncation_called(truncation);
  config.enable_thinking = enable_thinking;
  return {data::Encoder::make(config, tokenizer, data::read_model_identity(folder)), tokenizer};
}

Template open_template(const std::string& model, const std::optional<std::string>& name, const std::optional<std::string>& system,
                       std::optional<int64_t> max_length, const std::string& truncation, std::optional<bool> enable_thinking) {
  const auto folder = hub::locate_model(model);
  const auto longest = max_length ? *max_length : model::read_config(folder).max_position_embeddings;
  return make_template(folder, text::load_tokenizer(folder, {}), name, system, longest, truncation, enable_thinking);
}

data::Batch make_batch(const std::vector<Encoded>& rows) {
  std::vector<data::SamplePack> packs;
  for (const auto& [ids, labels, weights, media] : rows) {
    if (ids.empty() || labels.size() != ids.size() || (!weights.empty() && weights.size() != ids.size()))
      throw UserError(ExitCode::bad_data,
                      fmt::format("row {} has {} input_ids, {} labels and {} weights", packs.size(), ids.size(), labels.size(),
                                  weights.size()),
                      "expected as many labels as ids, -100 where nothing is learned, and as many weights or none");
    data::Sample sample;
    sample.ids = ids;
    sample.labels = labels;
    sample.loss_scale = weights;
    if (media) {
      check_placeholders(*media, ids);
      sample.pictures = media->pictures;
      sample.sounds = media->sounds;
    }
    packs.push_back({std::move(sample)});
  }
  if (packs.empty()) throw UserError(ExitCode::bad_data, "a batch of no rows", "expected one or more");
  return data::collate(packs, data::PackMask::separate);
}

std::unique_ptr<DataLoader> make_loader(const Dataset& dataset, int64_t batch_size, bool shuffle, uint64_t seed,
                                        const std::string& packing, bool drop_last, int rank, int world_size) {
  if (batch_size < 1) throw UserError(ExitCode::usage, fmt::format("batch_size is {}", batch_size), "expected 1 or more");
  data::LoaderConfig config;
  config.batch_size = batch_size;
  config.shuffle = shuffle;
  config.seed = seed;
  config.packing = data::parse_packing(packing);
  config.drop_last = drop_last;
  config.rank = rank;
  config.world_size = world_size;
  auto report = std::make_shared<data::RowReport>();
  auto loader = std::make_unique<DataLoader>();
  loader->loader = data::make_loader(dataset.rows, dataset.encoder, config, report);
  report->log_summary();
  return loader;
}

}  // namespace

void check_placeholders(const Media& media, const Tokens& ids) {
  auto check = [&](const auto& medium, int64_t tokens, text::TokenId placeholder) {
    for (int64_t i = 0; i < tokens; ++i)
      if (const auto position = medium.position(i); position >= ids.size() || ids[position] != placeholder)
        throw UserError(ExitCode::bad_data, fmt::format("input_ids have no placeholders for {}", medium.source),
                        "pass the ids and the media that one call of a template returned");
  };
  for (const auto& picture : media.pictures) {
    check(picture, picture.geometry.tokens, picture.placeholder());
    for (const auto& crop : picture.crops) check(crop, crop.geometry.tokens, crop.placeholder());
  }
  for (const auto& sound : media.sounds) check(sound, sound.tokens, sound.config->pad);
}

void bind_data(nb::module_& m) {
  nb::class_<Template>(m, "Template")
      .def_static(
          "make",
          [](const Model& model, const std::optional<std::string>& name, const std::optional<std::string>& system,
             std::optional<int64_t> max_length, const std::string& truncation, std::optional<bool> enable_thinking) {
            const auto longest = max_length.value_or(model.lm->config().max_position_embeddings);
            return make_template(model.folder, model.tokenizer, name, system, longest, truncation, enable_thinking);
          },
          nb::arg("model"), nb::arg("name") = nb::none(), nb::arg("system") = nb::none(), nb::arg("max_length") = nb::none(),
          nb::arg("truncation") = "delete", nb::arg("enable_thinking") = nb::none())
      .def_static("open", open_template, nb::arg("model"), nb::arg("name") = nb::none(), nb::arg("system") = nb::none(),
                  nb::arg("max_length") = nb::none(), nb::arg("truncation") = "delete", nb::arg("enable_thinking") = nb::none())
      .def(
          "decode",
          [](const Template& self, const std::vector<text::TokenId>& ids, bool skip) {
            return self.tokenizer->decode(ids, skip);
          },
          nb::arg("ids"), nb::arg("skip_special_tokens") = true)
      .def(
          "tokenize", [](const Template& self, const std::string& text) { return self.tokenizer->encode(text); }, nb::arg("text"))
      .def_prop_ro("name", [](const Template& self) { return self.encoder->template_name(); })
      .def_prop_ro("max_length", [](const Template& self) { return self.encoder->config().max_length; })
      .def_prop_ro("stop_token_ids", [](const Template& self) { return self.encoder->stop_ids(); })
      .def_prop_ro("stop_words", [](const Template& self) { return self.encoder->stop_words(); })
      .def(
          "encode",
          [](const Template& self, const std::string& row) {
            return encoded(self.encoder->encode(one_row(row, false)).or_throw(ExitCode::bad_data, "row"));
          },
          nb::arg("row"))
      .def(
          "prompt",
          [](const Template& self, const std::string& row) {
            return self.encoder->encode_prompt(one_row(row, true)).or_throw(ExitCode::bad_data, "row");
          },
          nb::arg("row"))
      .def(
          "encode_prompt",
          [](const Template& self, const std::string& row) {
            data::Sample sample;
            sample.ids = self.encoder->encode_prompt(one_row(row, true), &sample.pictures, &sample.sounds)
                             .or_throw(ExitCode::bad_data, "row");
            sample.labels.assign(sample.ids.size(), data::kIgnore);
            return encoded(sample);
          },
          nb::arg("row"));

  nb::class_<Dataset>(m, "Dataset")
      .def_static(
          "open",
          [](const std::vector<std::string>& words, const Template& encoding, int64_t seed, bool shuffle) {
            return without_gil([&] { return Dataset{open_words(words, seed, shuffle), encoding.encoder}; });
          },
          nb::arg("names"), nb::arg("template"), nb::arg("seed") = 42, nb::arg("shuffle") = true)
      .def_static(
          "of_rows",
          [](const std::vector<std::string>& rows, const Template& encoding) {
            return without_gil([&] { return Dataset{read_rows(rows, false), encoding.encoder}; });
          },
          nb::arg("rows"), nb::arg("template"))
      .def("__len__", [](const Dataset& self) { return self.rows->size(); })
      .def(
          "encode",
          [](const Dataset& self, int64_t index) {
            auto row = self.rows->at(index).or_throw(ExitCode::bad_data, "row");
            return encoded(self.encoder->encode(row).or_throw(ExitCode::bad_data, "row"));
          },
          nb::arg("index"));

  nb::class_<Media>(m, "Media")
      .def_prop_ro("num_images", [](const Media& self) { return self.pictures.size(); })
      .def_prop_ro("num_sounds", [](const Media& self) { return self.sounds.size(); });

  nb::class_<data::Batch>(m, "Batch")
      .def_static(
          "make", [](const std::vector<Encoded>& rows) { return without_gil([&] { return make_batch(rows); }); }, nb::arg("rows"))
      .def_prop_ro("input_ids", [](const data::Batch& self) { return self.tokens_t; })
      .def_prop_ro("position_ids", [](const data::Batch& self) { return self.positions_t; })
      .def_prop_ro("targets", [](const data::Batch& self) { return self.targets_t; })
      .def_prop_ro("weights", [](const data::Batch& self) { return self.weights_t; })
      .def_prop_ro("cu_seqlens", [](const data::Batch& self) { return self.segments.offsets; })
      .def_prop_ro("num_targets", [](const data::Batch& self) { return self.target_count; })
      .def_prop_ro("num_samples", [](const data::Batch& self) { return self.sample_count; })
      .def_prop_rw(
          "routed_experts", [](const data::Batch& self) { return self.routed_experts_tlk; },
          [](data::Batch& self, const Tensor& experts_tlk) { self.routed_experts_tlk = experts_tlk; })
      .def_prop_ro("rows", [](const data::Batch& self) { return self.rows; });

  nb::class_<DataLoader>(m, "DataLoader")
      .def_static(
          "make",
          [](const Dataset& dataset, int64_t batch_size, bool shuffle, uint64_t seed, const std::string& packing, bool drop_last,
             int rank, int world_size) {
            return without_gil(
                [&] { return make_loader(dataset, batch_size, shuffle, seed, packing, drop_last, rank, world_size).release(); });
          },
          nb::arg("dataset"), nb::arg("batch_size"), nb::arg("shuffle"), nb::arg("seed"), nb::arg("packing"),
          nb::arg("drop_last"), nb::arg("rank") = 0, nb::arg("world_size") = 1, nb::rv_policy::take_ownership)
      .def("next",
           [](DataLoader& self) {
             return without_gil([&] {
               std::lock_guard lock(self.busy);
               return self.loader->next();
             });
           })
      .def("__len__", [](const DataLoader& self) { return self.loader->batches_per_epoch(); })
      .def_prop_ro("epoch", [](const DataLoader& self) { return self.loader->epoch(); })
      .def("state", [](const DataLoader& self) { return self.loader->state().dump(); })
      .def(
          "restore", [](DataLoader& self, const std::string& state) { self.loader->restore(Json::parse(state)); },
          nb::arg("state"));
}

}  // namespace hone::python

// Names of models and datasets as files of this machine.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>

#include "hone/data/datasets/dataset_files.h"
#include "hone/data/readers/row_reader.h"
#include "hone/hub/locate.h"
#include "objects.h"

namespace hone::python {
namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

hub::Site site_called(const std::string& name) {
  const auto wanted = name.empty() ? (variable("USE_HF").value_or("0") == "1" ? "hf" : "ms") : name;
  if (wanted == "hf") return hub::Site::hugging_face;
  if (wanted == "ms") return hub::Site::modelscope;
  throw UserError(ExitCode::usage, fmt::format("the hub is \"{}\"", name), "expected ms or hf");
}

// The rows of a file, a folder or a hub's dataset as JSON text, with the columns that the files have.
std::vector<std::string> read_rows(const std::string& name, const std::string& subset, const std::string& split) {
  std::vector<std::unique_ptr<data::RowReader>> parts;
  if (fs::is_regular_file(name)) {
    parts.push_back(data::open_rows(name));
  } else {
    const auto folder = fs::is_directory(name) ? fs::path(name) : hub::locate_dataset(name, hub::config().site);
    for (const auto& file : data::dataset_files(folder, subset, split)) parts.push_back(data::open_rows(file));
  }
  const auto rows = data::concat_rows(std::move(parts));
  std::vector<std::string> texts;
  for (int64_t row = 0; row < rows->size(); ++row)
    texts.push_back(rows->at(row).or_throw(ExitCode::bad_data, name).fields.dump());
  return texts;
}

}  // namespace

void bind_hub(nb::module_& m) {
  m.def(
      "configure_hub",
      [](const std::string& site) {
        hub::configure({.site = site_called(site), .token = {}, .cache = {}, .user = hub::user_settings(variable)});
      },
      nb::arg("site"));
  m.def(
      "read_rows",
      [](const std::string& name, const std::string& subset, const std::string& split) {
        return without_gil([&] { return read_rows(name, subset, split); });
      },
      nb::arg("name"), nb::arg("subset"), nb::arg("split"));
  m.def(
      "locate_model", [](const std::string& name) { return without_gil([&] { return hub::locate_model(name).string(); }); },
      nb::arg("name"));
}

}  // namespace hone::python

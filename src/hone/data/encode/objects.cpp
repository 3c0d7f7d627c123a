#include "hone/data/encode/objects.h"

#include <algorithm>
#include <cmath>

#include "hone/base/strings/counted.h"
#include "hone/data/encode/media_tags.h"

namespace hone::data {
namespace {

using Box = std::vector<double>;

[[noreturn]] void refuse_objects(const std::string& what) { throw MediaError("objects: " + what); }

Box read_box(const Json& value) {
  const bool fits = value.is_array() && (value.size() == 2 || value.size() == 4) &&
                    std::ranges::all_of(value, [](const Json& number) { return number.is_number(); });
  if (!fits) refuse_objects(fmt::format("a bbox is {}; expected [x1, y1, x2, y2] or [x, y]", value.dump().substr(0, 80)));
  auto box = value.get<Box>();
  for (size_t axis = 0; axis < 2 && box.size() == 4; ++axis)
    if (box[axis] > box[axis + 2]) std::swap(box[axis], box[axis + 2]);
  return box;
}

const Json& list_in(const Json& objects, const char* name) {
  static const Json kNone = Json::array();
  const auto found = objects.find(name);
  if (found == objects.end() || found->is_null()) return kNone;
  if (!found->is_array()) refuse_objects(fmt::format("\"{}\" is not a list", name));
  return *found;
}

// The image of the box with this index.
size_t image_of(const Json& ids, size_t number, const std::vector<Picture>& images) {
  const Json id = number < ids.size() ? ids[number] : Json(0);
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= static_cast<int64_t>(images.size()))
    refuse_objects(fmt::format("image_id {} in a row of {}", id.dump(), counted(images.size(), "image")));
  return static_cast<size_t>(id.get<int64_t>());
}

// The size that the model reads; tiles are cut from the original image later.
media::ImageSize reference_size(const Picture& picture) {
  return picture.config->processor.tiles.side > 0 ? picture.geometry.source : picture.input_size();
}

std::vector<int64_t> scaled_box(const Box& box, const Picture& picture, bool is_share, bool in_pixels) {
  const auto to = in_pixels ? reference_size(picture) : media::ImageSize{1000, 1000};
  const auto from = is_share ? media::ImageSize{1, 1} : picture.geometry.source;
  std::vector<int64_t> scaled;
  for (size_t i = 0; i < box.size(); ++i) {
    const bool across = i % 2 == 0;
    const auto whole = static_cast<double>(across ? from.width : from.height);
    const double coordinate = box[i] / whole * static_cast<double>(across ? to.width : to.height);
    if (!(std::abs(coordinate) < 1e9)) refuse_objects(fmt::format("a coordinate of {}", box[i]));
    scaled.push_back(static_cast<int64_t>(std::nearbyint(coordinate)));
  }
  return scaled;
}

std::string box_text(const std::vector<int64_t>& box, BoxConfig::Style style) {
  const auto list = fmt::format("[{}]", fmt::join(box, ", "));
  std::string points;
  for (size_t i = 0; i + 1 < box.size(); i += 2) points += fmt::format("{}({},{})", i > 0 ? "," : "", box[i], box[i + 1]);
  switch (style) {
    case BoxConfig::Style::qwen:
      return "<|box_start|>" + points + "<|box_end|>";
    case BoxConfig::Style::intern:
      return "<box>[" + list + "]</box>";
    case BoxConfig::Style::list:
      return list;
    default:
      return "[" + points + "]";
  }
}

std::string ref_text(const Json& name, BoxConfig::Style style) {
  if (!name.is_string()) refuse_objects("a ref that is not text");
  const auto text = name.get<std::string>();
  if (style == BoxConfig::Style::qwen) return "<|object_ref_start|>" + text + "<|object_ref_end|>";
  return style == BoxConfig::Style::intern ? "<ref>" + text + "</ref>" : text;
}

// Tags are matched with texts in order; unmatched ones remain.
void fill_tags(std::vector<Message>& messages, const std::string& tag, const std::vector<std::string>& texts) {
  size_t next = 0;
  for (auto& message : messages)
    for (size_t at = 0; next < texts.size() && (at = message.content.find(tag, at)) != std::string::npos;) {
      message.content.replace(at, tag.size(), texts[next]);
      at += texts[next++].size();
    }
}

// Null where the row has none.
Json objects_in(const Json& columns, const std::vector<Picture>& images, const BoxConfig& config) {
  if (!config.reads_objects || !columns.is_object() || !columns.contains("objects") || images.empty()) return nullptr;
  if (!columns["objects"].is_object() && !columns["objects"].is_null()) refuse_objects("expected an object with ref and bbox");
  return columns["objects"];
}

}  // namespace

std::vector<ScaledBox> scaled_boxes(const Json& columns, const std::vector<Picture>& images, const BoxConfig& config) {
  const auto objects = objects_in(columns, images, config);
  if (objects.is_null()) return {};
  const auto type = objects.value("bbox_type", Json());
  if (!type.is_null() && type != "real" && type != "norm1")
    refuse_objects(fmt::format("bbox_type {}; expected real or norm1", type.dump()));
  const auto &names = list_in(objects, "ref"), &given = list_in(objects, "bbox"), &ids = list_in(objects, "image_id");
  std::vector<ScaledBox> boxes;
  for (size_t i = 0; i < given.size(); ++i) {
    ScaledBox box{i < names.size() && names[i].is_string() ? names[i].get<std::string>() : "",
                  image_of(ids, i, images),
                  read_box(given[i]),
                  {}};
    box.scaled = scaled_box(box.given, images[box.image], type == "norm1", config.in_pixels);
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::string describe(const ScaledBox& box, const std::vector<Picture>& images, const BoxConfig& config) {
  const auto seen = reference_size(images[box.image]);
  return fmt::format("{}{} in image {}: [{}] is [{}] {}", box.given.size() == 4 ? "box" : "point",
                     box.name.empty() ? "" : " of " + box.name, box.image + 1, fmt::join(box.given, ", "),
                     fmt::join(box.scaled, ", "),
                     config.in_pixels ? fmt::format("in pixels of {} x {}", seen.width, seen.height) : "in thousandths");
}

void fill_objects(std::vector<Message>& messages, const Json& columns, const std::vector<Picture>& images,
                  const BoxConfig& config) {
  const auto objects = objects_in(columns, images, config);
  if (objects.is_null()) return;
  std::vector<std::string> names, boxes;
  for (const auto& name : list_in(objects, "ref")) names.push_back(ref_text(name, config.style));
  for (const auto& box : scaled_boxes(columns, images, config)) boxes.push_back(box_text(box.scaled, config.style));
  fill_tags(messages, "<ref-object>", names);
  fill_tags(messages, "<bbox>", boxes);
}

}  // namespace hone::data

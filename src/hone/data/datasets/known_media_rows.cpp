#include "hone/data/datasets/known_media_rows.h"

#include <filesystem>
#include <iterator>

#include "hone/base/strings/replace_all.h"
#include "hone/data/datasets/row_changes.h"

namespace hone::data {
namespace {

constexpr const char* kCocoNames[] = {
    "person",         "bicycle",    "car",           "motorcycle",    "airplane",     "bus",           "train",
    "truck",          "boat",       "traffic light", "fire hydrant",  "stop sign",    "parking meter", "bench",
    "bird",           "cat",        "dog",           "horse",         "sheep",        "cow",           "elephant",
    "bear",           "zebra",      "giraffe",       "backpack",      "umbrella",     "handbag",       "tie",
    "suitcase",       "frisbee",    "skis",          "snowboard",     "sports ball",  "kite",          "baseball bat",
    "baseball glove", "skateboard", "surfboard",     "tennis racket", "bottle",       "wine glass",    "cup",
    "fork",           "knife",      "spoon",         "bowl",          "banana",       "apple",         "sandwich",
    "orange",         "broccoli",   "carrot",        "hot dog",       "pizza",        "donut",         "cake",
    "chair",          "couch",      "potted plant",  "bed",           "dining table", "toilet",        "tv",
    "laptop",         "mouse",      "remote",        "keyboard",      "cell phone",   "microwave",     "oven",
    "toaster",        "sink",       "refrigerator",  "book",          "clock",        "vase",          "scissors",
    "teddy bear",     "hair drier", "toothbrush"};

}  // namespace

bool caption(Json& fields, const RowOrigin&) {
  const auto text = column_text(fields, {"caption"});
  fields["query"] = "please describe the image.";
  fields["response"] = text.substr(0, text.find("&&"));
  return true;
}

bool transcribe(Json& fields, const RowOrigin&) {
  fields["query"] = "语音转文本";
  fields["response"] = replace_all(column_text(fields, {"Text:LABEL"}), " ", "");
  return true;
}

// The videos lie unpacked in the dataset's folder.
bool ask_about_video(Json& fields, const RowOrigin& origin) {
  const auto file = column_text(fields, {"video_name"}) + ".mp4";
  auto folder = std::filesystem::path(origin.file).parent_path();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path())
    for (const auto& place : {folder / "Test_Videos" / file, folder / "videos" / file})
      if (std::error_code ignored; std::filesystem::exists(place, ignored)) fields["videos"] = place.string();
  if (!find_column(fields, {"videos"})) fields["videos"] = "Test_Videos/" + file;
  for (const char* name : {"question", "question_1", "question_2"})
    if (auto question = column_text(fields, {name}); !question.empty() && question != "None")
      return fields["question"] = question, true;
  return false;
}

bool embed_caption(Json& fields, const RowOrigin&) {
  const auto* texts = find_column(fields, {"reference_strs"});
  const Json first = texts && texts->is_array() && !texts->empty() ? texts->front() : texts ? *texts : Json("");
  fields = Json{{"messages", Json::array({chat_message("user", "<image>")})},
                {"positive_messages", Json::array({Json::array({chat_message("user", column_text(first))})})},
                {"images", fields.value("image", Json())}};
  return true;
}

bool detect_objects(Json& fields, const RowOrigin&) {
  const auto* objects = find_column(fields, {"objects"});
  if (!objects || !objects->is_object()) return false;
  Json names = Json::array();
  std::string response;
  for (const auto& category : objects->value("category", Json::array())) {
    const auto index = category.is_number_integer() ? category.get<int64_t>() : -1;
    if (index < 0 || index >= static_cast<int64_t>(std::size(kCocoNames))) return false;
    names.push_back(kCocoNames[index]);
    response += response.empty() ? "<ref-object><bbox>" : "\n<ref-object><bbox>";
  }
  fields["objects"] = Json{{"ref", std::move(names)}, {"bbox", objects->value("bbox", Json::array())}};
  fields["query"] = "Task: Object Detection";
  fields["response"] = std::move(response);
  return true;
}

bool list_classes(Json& fields, const RowOrigin&) {
  Json present = Json::array();
  if (const auto* marks = find_column(fields, {"npy"}); marks && marks->is_array())
    for (size_t i = 0; i < marks->size(); ++i)
      if ((*marks)[i] == 1) present.push_back(i);
  fields["label"] = std::move(present);
  fields["query"] =
      "多标签分类，类别包括：['aeroplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair', 'cow', "
      "'diningtable', "
      "'dog', 'horse', 'motorbike', 'person', 'pottedplant', 'sheep', 'sofa', 'train', 'tvmonitor']";
  return true;
}

}  // namespace hone::data

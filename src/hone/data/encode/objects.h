// ms-swift's `objects`: names and bounding boxes in a row's images, which replace its tags <ref-object> and <bbox>.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// A box or a point as in the row, and scaled for the model.
struct ScaledBox {
  std::string name;  // its ref; empty where there is none
  size_t image = 0;
  std::vector<double> given;
  std::vector<int64_t> scaled;
};
std::vector<ScaledBox> scaled_boxes(const Json& columns, const std::vector<Picture>& images, const BoxConfig& config);

// "box of the cat in image 1: [10, 20, 100, 200] is [16, 42, 156, 417] in thousandths", for display.
std::string describe(const ScaledBox& box, const std::vector<Picture>& images, const BoxConfig& config);

// `columns` of the row may contain "objects": {"ref": [names], "bbox": [[x1, y1, x2, y2] or [x, y]], "bbox_type": "real" or
// "norm1", "image_id": [image indices]}. Boxes are converted. Throws text::FormatError for anything else.
void fill_objects(std::vector<Message>& messages, const Json& columns, const std::vector<Picture>& images,
                  const BoxConfig& config);

}  // namespace hone::data

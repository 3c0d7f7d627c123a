// ms-swift's `objects`: names and boxes of what is in a row's images, which fill its tags <ref-object> and <bbox>.
#pragma once
#include "hone/data/encode/pictures.h"

namespace hone::data {

// `columns` of the row may hold "objects": {"ref": [names], "bbox": [[x1, y1, x2, y2] or [x, y]], "bbox_type": "real" or "norm1",
// "image_id": [which image]}. Boxes become what the model sees. Throws text::FormatError for what is none of this.
void fill_objects(std::vector<Message>& messages, const Json& columns, const std::vector<Picture>& images,
                  const BoxConfig& config);

}  // namespace hone::data

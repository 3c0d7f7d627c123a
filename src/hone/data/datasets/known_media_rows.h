// The rows that ms-swift makes of known datasets with images, videos and audio. False: it leaves the row out.
#pragma once
#include "hone/data/conversation.h"

namespace hone::data {

bool caption(Json& fields, const RowOrigin& origin);
bool transcribe(Json& fields, const RowOrigin& origin);
bool ask_about_video(Json& fields, const RowOrigin& origin);
bool embed_caption(Json& fields, const RowOrigin& origin);
bool detect_objects(Json& fields, const RowOrigin& origin);
bool list_classes(Json& fields, const RowOrigin& origin);

}  // namespace hone::data

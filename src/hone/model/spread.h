// Spreading a model's weights over several devices by how much room each has.
#pragma once
#include <filesystem>
#include <vector>

#include "hone/model/placement.h"

namespace hone::model {

struct Room {
  at::Device device;
  double bytes;  // for weights
};

// accelerate's ways: every device about as full as the others, the first one as empty as it can be, or one after the other.
enum class Spread { balanced, low_first, sequential };

// Blocks stay whole and in order. Embedding, final norm and head lie on the first device, where tokens go in and answers come out.
// Throws UserError(out_of_memory) when the weights in `folder` do not fit.
Placement spread_over(const std::filesystem::path& folder, const std::vector<Room>& rooms, Spread how);

}  // namespace hone::model

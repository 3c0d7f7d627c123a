#include "cann_emulator/acl/types.h"

#include <array>
#include <utility>

namespace cann {
namespace {

using c10::ScalarType;
constexpr std::array<std::pair<int, ScalarType>, 16> kTypes{{{0, ScalarType::Float},
                                                             {1, ScalarType::Half},
                                                             {2, ScalarType::Char},
                                                             {3, ScalarType::Int},
                                                             {4, ScalarType::Byte},
                                                             {6, ScalarType::Short},
                                                             {7, ScalarType::UInt16},
                                                             {8, ScalarType::UInt32},
                                                             {9, ScalarType::Long},
                                                             {10, ScalarType::UInt64},
                                                             {11, ScalarType::Double},
                                                             {12, ScalarType::Bool},
                                                             {16, ScalarType::ComplexFloat},
                                                             {17, ScalarType::ComplexDouble},
                                                             {27, ScalarType::BFloat16},
                                                             {33, ScalarType::ComplexHalf}}};

}  // namespace

ScalarType scalar_type(int acl_type) {
  for (auto [number, type] : kTypes)
    if (number == acl_type) return type;
  return ScalarType::Undefined;
}

int acl_type(ScalarType type) {
  for (auto [number, known] : kTypes)
    if (known == type) return number;
  return -1;
}

}  // namespace cann

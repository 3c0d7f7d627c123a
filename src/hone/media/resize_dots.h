// The loops of resize_rows.h with int8 dot products, if the processor has them: Arm's dotprod (resize_dots.cpp), AVX-512's
// VNNI (resize_dots_x86.cpp). Each loop returns whether it ran.
#pragma once
#include "hone/media/resize_rows.h"

namespace hone::media {

bool has_byte_dots();

bool resize_columns_by_dots(const uint8_t* const* rows, uint8_t* const* out, const ColumnTaps& taps);

bool resize_rows_by_dots(const uint8_t* rows, uint8_t* out, size_t width, const Taps& taps);

}  // namespace hone::media

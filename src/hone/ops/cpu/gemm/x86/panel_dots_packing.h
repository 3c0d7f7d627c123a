// The packing functions of panel_dots_kernels.h on x86: AVX2 and AVX-512 use the same order of words.
#pragma once
#include "hone/ops/cpu/gemm/panel_dots_kernels.h"

namespace hone::ops::cpu {

void pack_int8_rows(const WordLines& rows, int64_t groups, int32_t* to);
void pack_int4_rows(const WordLines& rows, int64_t groups, int32_t* to);
void pack_int8_columns(const WordLines& codes, int64_t groups, int32_t* to);
void pack_int4_columns(const WordLines& codes, int64_t groups, int32_t* to);
void pack_int4_scales(const ScaleLines& scales, int64_t groups, float* to);

}  // namespace hone::ops::cpu

// Parts of quantized weights, for layers that are sharded across ranks: codes are copied, never quantized again, so that the
// parts together are the weight that one process has.
#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/ops/quantization/packed_codes.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::ops {
namespace {

using Range = QuantizedTensor::Range;

Tensor rectangle(const Tensor& whole, const Range& rows, const Range& columns) {
  return whole.narrow(0, rows.begin, rows.count).narrow(1, columns.begin, columns.count);
}

// Consecutive weights of a part that are in the same block of the whole: the largest size that fits all borders.
int64_t common_block(int64_t block, int64_t width, const Range& rows, const Range& columns) {
  if (columns.count == width) return std::gcd(block, std::gcd(rows.begin * width, rows.count * width));
  return std::gcd(std::gcd(block, width), std::gcd(columns.begin, columns.count));
}

// Float32 scales of smaller blocks take as much memory as 4-bit codes do, or more.
void warn_of_small_blocks(int64_t block, int64_t small, const Range& rows, const Range& columns) {
  constexpr int64_t kSmall = 16;
  if (small >= std::min(block, kSmall)) return;
  log::warn_once(
      fmt::format("a shard [{}, {}] of a quantized weight needs a scale for every {} weights instead of every {}, which costs "
                  "memory; shards whose sizes are multiples of {} need no more scales than the full weight",
                  rows.count, columns.count, small, block, block));
}

// The scale of each of a part's blocks of `small` weights, which are `block` in the whole.
Tensor scales_of_part(const Tensor& scales, int64_t block, int64_t small, int64_t width, const Range& rows,
                      const Range& columns) {
  const bool full_rows = columns.count == width;
  const int64_t begin = rows.begin * width / small, count = rows.count * width / small;
  auto number = at::arange(begin, begin + count, scales.options().dtype(at::kLong));
  if (!full_rows) number = number.view({rows.count, -1}).narrow(1, columns.begin / small, columns.count / small).reshape({-1});
  return scales.reshape({-1}).index_select(0, at::floor_divide(number, block / small)).view({-1, 1});
}

}  // namespace

std::shared_ptr<const QuantizedTensor> QuantizedTensor::part(const Range& rows, const Range& columns) const {
  at::NoGradGuard no_grad;
  std::shared_ptr<QuantizedTensor> taken(new QuantizedTensor());
  taken->how_ = how_, taken->block_ = block_;
  taken->shape_ = {rows.count, columns.count};
  taken->take_part(*this, rows, columns);
  return taken;
}

std::shared_ptr<const QuantizedTensor> QuantizedTensor::to(at::Device device) const {
  std::shared_ptr<QuantizedTensor> moved(new QuantizedTensor(*this));
  for (auto* tensor : {&moved->codes_, &moved->scales_, &moved->outer_, &moved->table_, &moved->scale_table_})
    if (tensor->defined()) *tensor = tensor->to(device);
  return moved;
}

void QuantizedTensor::take_part(const QuantizedTensor& whole, const Range& rows, const Range& columns) {
  if (how_.code == QuantType::int8) {
    codes_ = rectangle(whole.codes_, rows, columns).clone(at::MemoryFormat::Contiguous);
    scales_ = whole.scales_.narrow(0, rows.begin, rows.count).clone();
    return;
  }
  const bool grouped = how_.code == QuantType::grouped;
  const int bits = grouped ? how_.grouped.bits : kShortBits;
  const int64_t count = c10::multiply_integers(whole.shape_);
  codes_ = pack_codes(rectangle(unpack_codes(whole.codes_, bits, count).view(whole.shape_), rows, columns), bits);
  if (grouped) return take_grouped_part(whole, rows, columns);
  const int64_t width = whole.shape_[1];
  block_ = common_block(whole.block_, width, rows, columns);
  warn_of_small_blocks(whole.block_, block_, rows, columns);
  scales_ = scales_of_part(whole.scales(), whole.block_, block_, width, rows, columns);
  table_ = whole.table_;
  how_.double_quant = false;  // a part's blocks of scales are not those of the whole: they stay in float32
}

void QuantizedTensor::take_grouped_part(const QuantizedTensor& whole, const Range& rows, const Range& columns) {
  const int64_t height = whole.shape_[0], width = whole.shape_[1], group = whole.how_.grouped.group;
  if (how_.grouped.axis == 1) {
    how_.grouped.group = common_block(group, width, rows, columns);
    warn_of_small_blocks(group, how_.grouped.group, rows, columns);
    auto taken = [&](const Tensor& of_groups) {
      return scales_of_part(of_groups, group, how_.grouped.group, width, rows, columns);
    };
    scales_ = taken(whole.scales_), outer_ = taken(whole.outer_);
    return;
  }
  // Every `period` rows the groups repeat.
  const int64_t period = std::max<int64_t>(height / group, 1);
  if (height % group != 0 || rows.begin % period != 0 || rows.count % period != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("rows {} to {} of a weight [{}, {}] cannot be separated from groups of {} rows", rows.begin,
                                rows.begin + rows.count, height, width, group),
                    "set `hqq_axis` 1");
  how_.grouped.group = rows.count / period;
  auto taken = [&](const Tensor& of_groups) {
    return of_groups.view({period, width}).narrow(1, columns.begin, columns.count).reshape({1, -1}).clone();
  };
  scales_ = taken(whole.scales_), outer_ = taken(whole.outer_);
}

}  // namespace hone::ops

#include "hone/io/quantized/bitsandbytes.h"

namespace hone::io {
namespace {

// Looks up and scales the codes of all blocks; drops the padding of the last block.
Tensor scaled_blocks(const Tensor& values, const Tensor& scales, int64_t block) {
  auto padded = at::constant_pad_nd(values, {0, scales.numel() * block - values.numel()});
  return (padded.view({-1, block}) * scales.view({-1, 1})).view({-1}).slice(0, 0, values.numel());
}

Tensor looked_up_codes(const Tensor& table, const Tensor& codes) {
  return table.to(at::kFloat).view({-1}).index_select(0, codes.reshape({-1}).to(at::kInt));
}

bool fits_blocks(int64_t values, int64_t scales, int64_t block) { return block > 0 && scales == (values + block - 1) / block; }

}  // namespace

Result<Tensor> dequantize(const Bnb4Weight& weight) {
  const auto& state = weight.state;
  auto shape = state.value("shape", Json());
  auto block = state.value("blocksize", int64_t{64});
  if (!shape.is_array() || shape.size() != 2 || !shape[0].is_number_integer() || !shape[1].is_number_integer())
    return error("its quant_state names no shape");
  int64_t out = shape[0].get<int64_t>(), in = shape[1].get<int64_t>();
  if (out <= 0 || in <= 0 || in > (int64_t{1} << 40) / out || weight.codes.numel() != (out * in + 1) / 2 ||
      weight.table.numel() != 16)
    return error("its codes do not fit the shape [{}, {}]", out, in);
  auto scales = weight.scales.view({-1});
  if (!fits_blocks(out * in, scales.numel(), block)) return error("{} scales do not fit blocks of {}", scales.numel(), block);
  if (weight.outer_scales.defined()) {
    auto outer_block = state.value("nested_blocksize", int64_t{256});
    if (!fits_blocks(scales.numel(), weight.outer_scales.numel(), outer_block) || weight.scale_table.numel() != 256)
      return error("its nested scales do not fit");
    scales = scaled_blocks(looked_up_codes(weight.scale_table, scales), weight.outer_scales.to(at::kFloat), outer_block) +
             state.value("nested_offset", 0.0);
  }
  auto bytes = weight.codes.view({-1});
  auto codes = at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(15)}, 1).view({-1}).slice(0, 0, out * in);
  return scaled_blocks(looked_up_codes(weight.table, codes), scales.to(at::kFloat), block).view({out, in});
}

Tensor dequantize_int8(const Tensor& codes, const Tensor& row_scales) {
  return codes.to(at::kFloat) * (row_scales.to(at::kFloat).view({-1, 1}) / 127.0);
}

Tensor state_tensor(const Json& state) {
  auto text = state.dump();
  auto bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return bytes;
}

Result<Json> parse_state(const Tensor& bytes) {
  auto plain = bytes.contiguous();
  return parse_json({reinterpret_cast<const char*>(plain.const_data_ptr<uint8_t>()), static_cast<size_t>(plain.numel())});
}

}  // namespace hone::io

#include "hone/io/quantized/quantized_folder.h"

#include "hone/io/quantized/bitsandbytes.h"
#include "hone/io/quantized/fp8.h"
#include "hone/io/quantized/gptq_awq.h"

namespace hone::io {
namespace {

class QuantizedFolder {
 public:
  QuantizedFolder(const Json& quantization, const EntryMap& entries, const ReadTensor& read, const std::string& folder)
      : quantization_(quantization), entries_(entries), read_(read), folder_(folder) {}

  std::vector<QuantizedEntry> all() {
    auto method = text("quant_method");
    if (method == "gptq" || method == "awq")
      each("qweight", [&](const std::string& path) { method == "awq" ? add_awq(path) : add_gptq(path); });
    else if (method == "bitsandbytes" || method == "bnb")
      each("weight", [&](const std::string& path) { add_bnb(path); });
    else if (method == "fp8" || method == "compressed-tensors")
      add_all_fp8();
    else
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: its weights are quantized by \"{}\"", folder_, method),
                      "known: gptq, awq, bitsandbytes, fp8; or use the folder of the unquantized weights");
    return std::move(found_);
  }

 private:
  std::string text(const char* name) const {
    return quantization_.contains(name) && quantization_[name].is_string() ? quantization_[name].get<std::string>() : "";
  }
  int64_t number(const char* name, int64_t otherwise) const {
    return quantization_.contains(name) && quantization_[name].is_number_integer() ? quantization_[name].get<int64_t>()
                                                                                   : otherwise;
  }
  const TensorEntry* find(const std::string& name) const {
    auto entry = entries_.find(name);
    return entry == entries_.end() ? nullptr : entry->second;
  }
  [[noreturn]] void misfit(const std::string& path, const std::string& what) const {
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {}: {}", folder_, path, what), "fetch the folder again");
  }
  const TensorEntry& part(const std::string& path, const char* name, at::ScalarType type, size_t dimensions) const {
    const auto* entry = find(path + "." + name);
    if (!entry) misfit(path, fmt::format("it has no {}", name));
    bool fits = entry->shape.size() == dimensions &&
                (type == at::ScalarType::Undefined ? at::isFloatingType(entry->dtype) : entry->dtype == type);
    if (!fits) misfit(path, fmt::format("{} is {} [{}]", name, c10::toString(entry->dtype), fmt::join(entry->shape, ", ")));
    return *entry;
  }

  template <class Body>
  void each(const std::string& last, Body body) {
    for (const auto& [name, entry] : entries_)
      if (name.size() > last.size() + 1 && name.ends_with("." + last)) body(name.substr(0, name.size() - last.size() - 1));
  }

  void add(const std::string& path, at::ScalarType type, int64_t out, int64_t in, std::vector<std::string> parts,
           std::function<Tensor()> restore) {
    TensorEntry whole{path + ".weight", type, {out, in}, 0, static_cast<size_t>(out * in) * c10::elementSize(type)};
    std::vector<std::string> names;
    for (const auto& part : parts)
      if (find(path + "." + part)) names.push_back(path + "." + part);
    found_.push_back({std::move(whole), std::move(names), std::move(restore)});
  }

  void add_gptq(const std::string& path) {
    auto bits = number("bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) misfit(path, fmt::format("{} bits; expected 2, 4 or 8", bits));
    int64_t in_word = 32 / bits;
    const auto &codes = part(path, "qweight", at::kInt, 2), &zeros = part(path, "qzeros", at::kInt, 2),
               &scales = part(path, "scales", at::ScalarType::Undefined, 2);
    int64_t in = codes.shape[0] * in_word, out = codes.shape[1], groups = scales.shape[0];
    bool fits = scales.shape[1] == out && zeros.shape[0] == groups && zeros.shape[1] * in_word >= out && groups > 0;
    if (!fits) misfit(path, "its scales and zeros do not fit its codes");
    bool listed = find(path + ".g_idx") != nullptr;
    if (listed && part(path, "g_idx", at::kInt, 1).shape[0] != in) misfit(path, "g_idx does not fit its codes");
    bool less_one = text("checkpoint_format") != "gptq_v2";
    int64_t group = number("group_size", 128) > 0 ? number("group_size", 128) : in;
    add(path, scales.dtype, out, in, {"qweight", "qzeros", "scales", "g_idx"}, [=, read = read_, folder = folder_] {
      auto of_inputs = listed ? read(path + ".g_idx") : at::arange(in, at::TensorOptions(at::kInt)).floor_divide(group);
      if (of_inputs.min().item<int64_t>() < 0 || of_inputs.max().item<int64_t>() >= groups)
        throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {}: g_idx names a group that is not there", folder, path),
                        "fetch the folder again");
      return dequantize(GptqWeight{read(path + ".qweight"), read(path + ".qzeros"), read(path + ".scales"), of_inputs},
                        static_cast<int>(bits), less_one);
    });
  }

  void add_awq(const std::string& path) {
    auto version = text("version");
    if (number("bits", 4) != 4 || (!version.empty() && version != "gemm" && version != "GEMM"))
      misfit(path, fmt::format("AWQ of {} bits, version \"{}\"; expected 4 bits and gemm", number("bits", 4), version));
    const auto &codes = part(path, "qweight", at::kInt, 2), &zeros = part(path, "qzeros", at::kInt, 2),
               &scales = part(path, "scales", at::ScalarType::Undefined, 2);
    int64_t in = codes.shape[0], out = codes.shape[1] * 8, groups = scales.shape[0];
    if (groups == 0 || in % groups || zeros.shape[0] != groups || zeros.shape[1] * 8 != out || scales.shape[1] != out)
      misfit(path, "its scales and zeros do not fit its codes");
    add(path, scales.dtype, out, in, {"qweight", "qzeros", "scales"}, [path, read = read_] {
      return dequantize(AwqWeight{read(path + ".qweight"), read(path + ".qzeros"), read(path + ".scales")});
    });
  }

  void add_bnb(const std::string& path) {
    const auto* weight = find(path + ".weight");
    if (weight->dtype == at::kChar && find(path + ".SCB")) {
      if (weight->shape.size() != 2 || part(path, "SCB", at::kFloat, 1).shape[0] != weight->shape[0])
        misfit(path, "SCB does not fit its codes");
      add(path, at::kHalf, weight->shape[0], weight->shape[1], {"weight", "SCB", "weight_format"},
          [path, read = read_] { return dequantize_int8(read(path + ".weight"), read(path + ".SCB")); });
      return;
    }
    for (const char* code : {"nf4", "fp4"}) {
      auto state_name = fmt::format("weight.quant_state.bitsandbytes__{}", code);
      if (weight->dtype == at::kByte && find(path + "." + state_name)) return add_bnb4(path, state_name);
    }
  }

  void add_bnb4(const std::string& path, const std::string& state_name) {
    auto state = parse_state(read_(path + "." + state_name));
    if (!state || !state->is_object()) misfit(path, "its quant_state is not JSON");
    bool nested = find(path + ".weight.nested_absmax") != nullptr;
    for (const char* name : {"weight.absmax", "weight.quant_map"})
      if (!find(path + "." + name)) misfit(path, fmt::format("it has no {}", name));
    if (nested && !find(path + ".weight.nested_quant_map")) misfit(path, "it has no nested_quant_map");
    auto shape = state->value("shape", Json());
    if (!shape.is_array() || shape.size() != 2 || !shape[0].is_number_integer() || !shape[1].is_number_integer())
      misfit(path, "its quant_state names no shape");
    auto type = state->value("dtype", Json()) == "float32"   ? at::kFloat
                : state->value("dtype", Json()) == "float16" ? at::kHalf
                                                             : at::kBFloat16;
    add(path, type, shape[0].get<int64_t>(), shape[1].get<int64_t>(),
        {"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", state_name},
        [=, read = read_, folder = folder_, state = *state] {
          auto of = [&](const char* name) { return read(path + "." + name); };
          Bnb4Weight stored{of("weight"),
                            of("weight.absmax"),
                            of("weight.quant_map"),
                            nested ? of("weight.nested_absmax") : Tensor(),
                            nested ? of("weight.nested_quant_map") : Tensor(),
                            state};
          return dequantize(stored).or_throw(ExitCode::bad_checkpoint, folder + ": " + path);
        });
  }

  void add_all_fp8() {
    each("weight", [&](const std::string& path) { add_fp8(path); });
    for (const auto& [name, entry] : entries_)
      if (entry->dtype == at::kFloat8_e4m3fn && entry->shape.size() == 3) add_fp8_experts(name, *entry);
  }

  struct BlockSize {
    int64_t rows, columns;
  };
  BlockSize fp8_block() const {
    const auto size = quantization_.value("weight_block_size", Json());
    const bool given = size.is_array() && size.size() == 2 && size[0].is_number_integer() && size[1].is_number_integer();
    return given ? BlockSize{size[0].get<int64_t>(), size[1].get<int64_t>()} : BlockSize{kFp8Block, kFp8Block};
  }

  // "….experts.gate_up_proj" of all experts, with the scales in "….experts.gate_up_proj_scale_inv" (Qwen3-VL).
  void add_fp8_experts(const std::string& name, const TensorEntry& weight) {
    const auto scale_name = name + (find(name + "_scale_inv") ? "_scale_inv" : "_scale");
    const auto* scales = find(scale_name);
    if (!scales) misfit(name, "its weights have 8 bits and no scale");
    const auto block = fp8_block();
    const bool fits = scales->shape.size() == 3 && scales->shape[0] == weight.shape[0] &&
                      fits_grid(of_one(weight), of_one(*scales), block.rows, block.columns);
    if (!fits) misfit(scale_name, fmt::format("[{}] does not fit its weights", fmt::join(scales->shape, ", ")));
    TensorEntry whole{name, at::kBFloat16, weight.shape, 0, 2 * (weight.end - weight.begin)};
    found_.push_back({std::move(whole), {name, scale_name}, [=, read = read_] {
                        const auto codes = read(name), grid = read(scale_name);
                        std::vector<Tensor> experts;
                        for (int64_t i = 0; i < codes.size(0); ++i)
                          experts.push_back(dequantize_fp8(codes[i], grid[i], block.rows, block.columns));
                        return at::stack(experts);
                      }});
  }
  static TensorEntry of_one(TensorEntry experts) {
    experts.shape.erase(experts.shape.begin());
    return experts;
  }

  void add_fp8(const std::string& path) {
    const auto* weight = find(path + ".weight");
    if (weight->dtype != at::kFloat8_e4m3fn) return;
    if (weight->shape.size() != 2) misfit(path, "its weight is not a matrix");
    std::string name = find(path + ".weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
    const auto* scales = find(path + "." + name);
    if (!scales) misfit(path, "its weight has 8 bits and no scale");
    const auto [rows, columns] = fp8_block();
    if (!fits_grid(*weight, *scales, rows, columns))
      misfit(path, fmt::format("{} [{}] does not fit its weight", name, fmt::join(scales->shape, ", ")));
    add(path, at::kBFloat16, weight->shape[0], weight->shape[1],
        {"weight", "weight_scale_inv", "weight_scale", "input_scale", "activation_scale"},
        [=, read = read_, rows = rows, columns = columns] {
          return dequantize_fp8(read(path + ".weight"), read(path + "." + name), rows, columns);
        });
  }

  static bool fits_grid(const TensorEntry& weight, const TensorEntry& scales, int64_t rows, int64_t columns) {
    int64_t count = 1;
    for (auto size : scales.shape) count *= size;
    if (count == 1) return true;
    if (scales.shape.size() != 2 || rows <= 0 || columns <= 0) return false;
    if (scales.shape[1] == 1 && scales.shape[0] == weight.shape[0]) return true;
    return scales.shape[0] == (weight.shape[0] + rows - 1) / rows && scales.shape[1] == (weight.shape[1] + columns - 1) / columns;
  }

  const Json& quantization_;
  const EntryMap& entries_;
  const ReadTensor& read_;
  std::string folder_;
  std::vector<QuantizedEntry> found_;
};

}  // namespace

std::vector<QuantizedEntry> quantized_entries(const Json& quantization, const EntryMap& entries, const ReadTensor& read,
                                              const std::string& folder) {
  return QuantizedFolder(quantization, entries, read, folder).all();
}

}  // namespace hone::io

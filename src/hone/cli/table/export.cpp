// Export: merged, quantized and converted models.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_export(Rows& rows) {
  add_group(
      rows, "Export", kExport,
      {
          {"output_dir", Path, "auto", "Output folder; auto is <checkpoint>-merged.", factory{"export_dir"},
           also{"merged_lora_path"}},
          {"exist_ok", Flag, "false", "Write into an existing folder.", factory_default{"true"}},
          {"max_shard_size", Bytes, "5GB", "Maximum size of a weight file.", factory_unit{"export_size", "GB"}},
          {"safe_serialization", Flag, "true", "Write safetensors.", factory_not{"export_legacy_format"},
           always_on{"true", "hone writes safetensors only; pickle is never written"}},
          {"export_device", Choice("cpu|auto"), "cpu", "Device that merges the weights.", only_factory{},
           always_on{"cpu", "weights are merged on the CPU, shard by shard"}},
          {"quant_n_samples", Integer(1), "256", "Number of calibration samples.", factory{"export_quantization_nsamples"},
           factory_default{"128"}},
          {"quant_batch_size", Integer(-1), "1", "Calibration batch size; -1 is all samples.", only_swift{}},
          {"group_size", Integer(-1), "128", "Quantization group size; -1 is one group per output channel.", only_swift{}},
          {"export_quantization_bit", Integer(2, 8), "", "Export by GPTQ in 8, 4 or 2 bits.", only_factory{}},
          {"export_quantization_dataset", Path, "", "File with calibration texts.", only_factory{}},
          {"export_quantization_maxlen", Integer(1), "1024", "Length of a calibration sample in tokens.", only_factory{}},
          {"to_cached_dataset", Flag, "false", "Tokenize --dataset and write it for --cached_dataset.", only_swift{}},
          {"template_mode", Choice("train|rlhf|kto"), "train",
           "Template mode of --to_cached_dataset: rlhf keeps chosen and rejected responses, kto keeps labels.", only_swift{}},
          {"to_ollama", Flag, "false", "Write an Ollama Modelfile.", only_swift{}},
          {"to_peft_format", Flag, "false", "Write the adapter alone, in PEFT's format, without the state of its run.",
           only_swift{}},
          {"to_mcore", Flag, "false", "To Megatron.", only_swift{}, rejected{"hone trains Hugging Face folders directly"}},
          {"to_hf", Flag, "false", "From Megatron.", only_swift{},
           rejected{"convert with megatron export first; hone reads Hugging Face folders"}},
          {"mcore_model", Path, "", "Megatron checkpoint.", only_swift{}, rejected{"hone reads Hugging Face folders"}},
          {"mcore_adapter", Path, "", "Megatron adapter.", only_swift{}, rejected{"hone reads PEFT folders"}},
          {"test_convert_precision", Flag, "false", "Compare after conversion.", only_swift{},
           no_effect{"only read when converting from or to Megatron"}},
          {"thread_count", Integer(1), "", "Threads of a conversion.", only_swift{},
           no_effect{"only read when converting from or to Megatron"}},
      });
}

}  // namespace hone::cli::table

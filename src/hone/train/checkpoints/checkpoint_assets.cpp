#include "hone/train/checkpoints/checkpoint_assets.h"

#include "hone/base/model_file.h"
#include "hone/text/templates/template_tables.h"
#include "hone/tuner/model_folder.h"

namespace hone::train {
namespace {

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "chat_template.json"};
constexpr const char* kModelFiles[] = {"generation_config.json", "preprocessor_config.json", "spk_dict.pt"};

void copy_if_there(const fs::path& from, const fs::path& to) {
  if (fs::is_regular_file(from)) fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

void write_model_config(const fs::path& from, const fs::path& to, const std::string& weights_type, const Json& changes) {
  auto config = read_model_file(from);
  config.update(changes);
  config.erase("quantization_config");  // weights read from a quantized model are saved in full precision
  bool old_name = config.contains("torch_dtype") && !config.contains("dtype");
  config[old_name ? "torch_dtype" : "dtype"] = weights_type;
  write_file_atomically(to, config.dump(2) + "\n");
}

std::string model_card(const CheckpointAssets& assets) {
  return fmt::format(
      "---\nbase_model: {0}\nlibrary_name: {1}\npipeline_tag: {4}\ntags:\n- {2}\n- generated_from_trainer\n---\n\n"
      "# {3} of {0}\n\nTrained with hone; `args.json` holds every setting of the run.\n",
      assets.model_name, assets.adapter ? "peft" : "transformers", assets.tuner, assets.adapter ? "Adapter" : "Fine-tuned model",
      tuner::pipeline_tag(assets.model_folder));
}

}  // namespace

void write_args(const fs::path& folder, Json args) {
  auto named = args.find("template");
  std::error_code ignored;
  bool given = named != args.end() && named->is_string() && !text::find_swift_template(named->get_ref<const std::string&>()) &&
               !text::find_factory_template(named->get_ref<const std::string&>());
  if (given && fs::is_regular_file(named->get<std::string>(), ignored)) {
    write_file_atomically(folder / kTemplateFile, read_file(named->get<std::string>()));
    *named = kTemplateFile;
  }
  write_file_atomically(folder / "args.json", args.dump(2));
}

void CheckpointAssets::write(const fs::path& folder) const {
  bool whole_model = !adapter;
  if (whole_model || layout == Layout::factory)
    for (const char* name : kTokenizerFiles) copy_if_there(model_folder / name, folder / name);
  if (!new_tokens.empty()) text::write_extended_files(model_folder, folder, new_tokens, *tokenizer);
  if (whole_model) {
    for (const char* name : kModelFiles) copy_if_there(model_folder / name, folder / name);
    write_model_config(model_folder / "config.json", folder / "config.json", weights_type, config_changes);
  }
  if (!additional.is_null()) write_file_atomically(folder / "additional_config.json", additional.dump());
  if (!args.is_null()) write_args(folder, args);
  write_file_atomically(folder / "README.md", model_card(*this));
}

}  // namespace hone::train

// Writes a model folder atomically, with the files next to the original weights.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "hone/io/safetensors.h"
#include "hone/model/causal_lm.h"

namespace hone::tuner {

// Copies everything but the weights of a model folder; with `only`, only the files listed there.
void copy_small_files(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::set<std::string>* only = nullptr);

// A run may have added tokens or a template; its files take precedence over the base's. args.json tells infer how the model was
// trained.
const std::set<std::string>& files_beside_adapter();

// The hub's name for the task of such a model: "text-generation", "image-text-to-text" …
std::string pipeline_tag(const std::filesystem::path& model_folder);

// A temporary folder next to the output, removed unless the work completes.
class Staging {
 public:
  // Throws UserError(usage) when it cannot be made.
  explicit Staging(const std::filesystem::path& output);
  ~Staging();
  Staging(const Staging&) = delete;
  const std::filesystem::path& folder() const { return folder_; }
  void publish();

 private:
  void move_into();
  std::filesystem::path output_, folder_;
};

// Adds the tensors of the model's folder that are neither computed with nor trained (the talker of an Omni model), unchanged, to
// those written under the model's names.
void append_carried(model::CausalLM& model, std::vector<io::TensorSource>& sources);

}  // namespace hone::tuner

// The files of what a run trains, written for checkpoints and read again by a resumed run.
#pragma once
#include <functional>

#include "hone/base/file.h"
#include "hone/tuner/tuner.h"

namespace hone::tuner {

// Saves what is trained as PEFT's or Hugging Face's files; the caller writes config, tokenizer and the like. Adapters whose
// initialization changed the base (PiSSA, OLoRA, LoRA-GA) include a plain LoRA form in converted/default. `read` fetches a weight
// that is not in this process's memory when it is written.
using ReadWeight = std::function<Tensor(const Tensor& parameter)>;
void save_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, size_t max_shard_bytes = 5'000'000'000,
                  const ReadWeight& read = {});
// LLaMA-Factory's three folders of a converted PiSSA run: pissa_init, pissa_backup (as trained) and pissa_converted (plain LoRA).
void save_pissa_conversion(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder);
// Loads files written by save_trained into the model, for a resume. Throws UserError(bad_checkpoint). `copy` replaces the plain
// copy if weights are distributed.
using CopyWeight = std::function<void(const Tensor& parameter, const Tensor& values)>;
void load_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, const CopyWeight& copy = {});

}  // namespace hone::tuner

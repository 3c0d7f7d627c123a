// Adapters that are loaded and unloaded independently on one base: for an engine that serves several.
#pragma once
#include <filesystem>
#include <string>

#include "hone/tuner/adapter.h"

namespace hone::tuner {

// Why the adapter in `folder` cannot be served together with others: it changes base weights. Empty if it can.
std::string multi_adapter_conflict(const fs::path& folder);

void set_inactive(model::CausalLM& model, const std::string& name);    // kept, but no part of the model's own result
void delete_adapter(model::CausalLM& model, const std::string& name);  // its matrices leave the model
// During its lifetime the adapter is part of the model's own result: for passes with rows of no other one, as a tower's. "":
// none.
class ActiveAdapter {
 public:
  ActiveAdapter(model::CausalLM& model, std::string name);
  ~ActiveAdapter() { set_inactive(model_, name_); }
  ActiveAdapter(const ActiveAdapter&) = delete;

 private:
  model::CausalLM& model_;
  std::string name_;
};
bool uses_dora(model::CausalLM& model, const std::string& name);        // DoRA
bool changes_experts(model::CausalLM& model, const std::string& name);  // the stacked weights of a mixture

}  // namespace hone::tuner

#include "hone/io/expert_names.h"

#include <gtest/gtest.h>

namespace hone::io {
namespace {

// A layer of two experts under the given names, each tensor filled with its place in the list.
std::map<std::string, Tensor> single_experts(const ExpertNames& names) {
  std::map<std::string, Tensor> tensors;
  float value = 0;
  for (int expert = 0; expert < 2; ++expert)
    for (const auto& [kind, rows, columns] : {std::tuple(names.gate, 3, 4), {names.up, 3, 4}, {names.down, 4, 3}})
      tensors[fmt::format("model.layers.0.{}.experts.{}.{}.weight", names.block, expert, kind)] =
          at::full({rows, columns}, value++, at::TensorOptions(at::kFloat));
  tensors[fmt::format("model.layers.0.{}.gate.weight", names.block)] = at::full({2, 4}, value, at::TensorOptions(at::kFloat));
  return tensors;
}

std::map<std::string, TensorEntry> entries_of(const std::map<std::string, Tensor>& tensors) {
  std::map<std::string, TensorEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries[name] = {name, tensor.scalar_type(), tensor.sizes().vec(), 0, tensor.nbytes()};
  return entries;
}

EntryMap map_of(const std::map<std::string, TensorEntry>& entries) {
  EntryMap map;
  for (const auto& [name, entry] : entries) map[name] = &entry;
  return map;
}

TEST(ExpertNames, SinglesAreStackedAndWrittenBackAsTheyWere) {
  for (const auto& names : {ExpertNames(), kMixtralNames}) {
    auto tensors = single_experts(names);
    auto entries = entries_of(tensors);
    auto found = stacked_entries(map_of(entries), "folder");
    ASSERT_TRUE(found.names && *found.names == names);
    std::vector<TensorSource> sources;
    for (const auto& stacked : found.entries) {
      auto whole = stack_experts(stacked, [&](const std::string& part) { return tensors.at(part); });
      EXPECT_EQ(whole.sizes(), at::IntArrayRef(stacked.entry.shape));
      sources.push_back(TensorSource::of(stacked.entry.name, whole));
    }
    if (names.block == "mlp")
      sources.push_back(TensorSource::of("model.layers.0.mlp.gate.weight", tensors.at("model.layers.0.mlp.gate.weight")));
    std::map<std::string, Tensor> written;
    for (const auto& source : unstack_experts(std::move(sources), names)) written[source.name] = source.load();
    ASSERT_EQ(written.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(written.contains(name) && at::equal(written.at(name), tensor)) << name;
  }
}

// Of Qwen3-VL: [in, out] for each expert where the model has [out, in]. Either weight may be a square, never both.
TEST(ExpertNames, TransposedOnesAreTurnedAndWrittenBackAsTheyWere) {
  for (auto [hidden, inner] : {std::pair<int64_t, int64_t>{4, 3}, {4, 2}, {4, 4}}) {
    const std::string block = "model.language_model.layers.0.mlp.experts.";
    const std::map<std::string, Tensor> model{{block + "gate_up_proj", at::randn({2, 2 * inner, hidden})},
                                              {block + "down_proj", at::randn({2, hidden, inner})}};
    std::map<std::string, Tensor> hub;
    for (const auto& [name, tensor] : model) hub[name] = tensor.transpose(1, 2).contiguous();
    auto own = entries_of(model), transposed = entries_of(hub);
    EXPECT_FALSE(transposed_entries(map_of(own), hidden).names) << inner;
    auto found = transposed_entries(map_of(transposed), hidden);
    ASSERT_TRUE(found.names && *found.names == kTransposedNames) << inner;
    std::vector<TensorSource> sources;
    for (const auto& stacked : found.entries) {
      auto whole = stack_experts(stacked, [&](const std::string& part) { return hub.at(part); });
      EXPECT_TRUE(at::equal(whole, model.at(stacked.entry.name)));
      sources.push_back(TensorSource::of(stacked.entry.name, whole));
    }
    for (const auto& source : unstack_experts(std::move(sources), *found.names)) {
      EXPECT_EQ(at::IntArrayRef(source.shape), hub.at(source.name).sizes());
      EXPECT_TRUE(at::equal(source.load(), hub.at(source.name)));
    }
  }
}

TEST(ExpertNames, GateComesBeforeUp) {
  auto tensors = single_experts({});
  auto entries = entries_of(tensors);
  auto found = stacked_entries(map_of(entries), "folder");
  auto whole = stack_experts(found.entries[0], [&](const std::string& part) { return tensors.at(part); });
  EXPECT_EQ(found.entries[0].entry.name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_TRUE(at::equal(whole[1].slice(0, 0, 3), tensors.at("model.layers.0.mlp.experts.1.gate_proj.weight")));
  EXPECT_TRUE(at::equal(whole[1].slice(0, 3, 6), tensors.at("model.layers.0.mlp.experts.1.up_proj.weight")));
}

TEST(ExpertNames, WhatDoesNotFitIsNamed) {
  auto tensors = single_experts({});
  const std::string name = "model.layers.0.mlp.experts.0.down_proj.weight";
  auto lacking = tensors;
  lacking.erase(name);
  auto entries = entries_of(lacking);
  EXPECT_THROW(stacked_entries(map_of(entries), "folder"), UserError);
  for (const Tensor& other : {at::zeros({5, 3}), at::zeros({4, 3}, at::kHalf), at::zeros({12})}) {
    auto wrong = tensors;
    wrong[name] = other;
    entries = entries_of(wrong);
    EXPECT_THROW(stacked_entries(map_of(entries), "folder"), UserError);
  }
}

TEST(ExpertNames, OtherNamesAreLeftAlone) {
  std::map<std::string, Tensor> tensors;
  for (const char* name :
       {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.experts.x.gate_proj.weight",
        "model.layers.0.mlp.experts.-1.gate_proj.weight", "model.layers.0.mlp.experts.99999999999999999999.gate_proj.weight",
        "model.layers.0.mlp.experts.1.gate_proj.bias", "experts.1.weight", ""})
    tensors[name] = at::zeros({2, 2});
  auto entries = entries_of(tensors);
  auto found = stacked_entries(map_of(entries), "folder");
  EXPECT_TRUE(found.entries.empty() && !found.names);
}

}  // namespace
}  // namespace hone::io

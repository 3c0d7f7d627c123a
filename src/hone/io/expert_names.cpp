#include "hone/io/expert_names.h"

#include <charconv>
#include <memory>

namespace hone::io {
namespace {

constexpr std::string_view kWeight = ".weight", kExperts = ".experts.", kGateUp = ".mlp.experts.gate_up_proj",
                           kDown = ".mlp.experts.down_proj", kRouter = ".gate.weight";

struct ExpertWeightName {
  std::string layer;  // "model.layers.0"
  int64_t expert;
};

// Parses "model.layers.0.mlp.experts.3.gate_proj.weight" with the given names; nothing for other names.
std::optional<ExpertWeightName> parse_name(std::string_view name, const ExpertNames& names) {
  if (!name.ends_with(kWeight)) return std::nullopt;
  const auto single = parse_single_expert(name.substr(0, name.size() - kWeight.size()));
  const std::string block = "." + names.block;
  if (!single || !single->block.ends_with(block)) return std::nullopt;
  if (single->kind != names.gate && single->kind != names.up && single->kind != names.down) return std::nullopt;
  return ExpertWeightName{single->block.substr(0, single->block.size() - block.size()), single->expert};
}

std::string part_name(const std::string& layer, const ExpertNames& names, int64_t expert, const std::string& kind) {
  return fmt::format("{}.{}{}{}.{}{}", layer, names.block, kExperts, expert, kind, kWeight);
}

// The weights of these kinds of all experts, which have the same shape.
StackedEntry stack_of(const std::string& layer, std::string_view name, const std::vector<std::string>& kinds, int64_t experts,
                      const ExpertNames& names, const EntryMap& entries, const std::string& folder) {
  StackedEntry stacked{{layer + std::string(name), at::kFloat, {}, 0, 0}, {}};
  const TensorEntry* first = nullptr;
  for (int64_t expert = 0; expert < experts; ++expert)
    for (const auto& kind : kinds) {
      auto part = part_name(layer, names, expert, kind);
      auto found = entries.find(part);
      if (found == entries.end())
        throw UserError(ExitCode::bad_checkpoint,
                        fmt::format("{}: there are {} experts, and \"{}\" is missing", folder, experts, part),
                        "fetch the folder again");
      const auto& entry = *found->second;
      if (!first) first = &entry;
      if (entry.shape.size() != 2 || entry.shape != first->shape || entry.dtype != first->dtype)
        throw UserError(ExitCode::bad_checkpoint,
                        fmt::format("{}: \"{}\" has another shape or type than \"{}\"", folder, part, first->name),
                        "fetch the folder again");
      stacked.parts.push_back(std::move(part));
    }
  stacked.entry.dtype = first->dtype;
  stacked.entry.shape = {experts, first->shape[0] * static_cast<int64_t>(kinds.size()), first->shape[1]};
  stacked.entry.end = (first->end - first->begin) * stacked.parts.size();
  return stacked;
}

// The parts of one stacked tensor: rows [begin, begin + rows) of each expert's matrix.
void append_parts(std::vector<TensorSource>& list, const TensorSource& source, const std::string& layer,
                  const std::vector<std::string>& kinds, const ExpertNames& names) {
  auto whole = std::make_shared<Tensor>();
  const int64_t experts = source.shape[0], rows = source.shape[1] / static_cast<int64_t>(kinds.size());
  for (int64_t expert = 0; expert < experts; ++expert)
    for (size_t k = 0; k < kinds.size(); ++k) {
      const bool last = expert + 1 == experts && k + 1 == kinds.size();
      auto load = [whole, load = source.load, expert, begin = static_cast<int64_t>(k) * rows, rows, last] {
        if (!whole->defined()) *whole = load();
        auto part = whole->select(0, expert).narrow(0, begin, rows).contiguous();
        if (last) whole->reset();
        return part;
      };
      list.push_back({part_name(layer, names, expert, kinds[k]), source.dtype, {rows, source.shape[2]}, std::move(load)});
    }
}

// One of the two weights may have the same shape in both layouts, but never both.
bool is_transposed(const TensorEntry& gate_up, const TensorEntry* down, int64_t hidden) {
  if (gate_up.shape.size() != 3 || gate_up.shape[1] != hidden) return false;
  if (gate_up.shape[2] != hidden) return true;
  return down && down->shape.size() == 3 && down->shape[1] != hidden && down->shape[2] == hidden;
}

StackedEntry swapped(const TensorEntry& stored) {
  StackedEntry entry{stored, {stored.name}, true};
  std::swap(entry.entry.shape[1], entry.entry.shape[2]);
  return entry;
}

TensorSource swapped(TensorSource source) {
  std::swap(source.shape[1], source.shape[2]);
  source.load = [load = std::move(source.load)] { return load().transpose(1, 2).contiguous(); };
  return source;
}

std::string without_end(const std::string& name, std::string_view end) { return name.substr(0, name.size() - end.size()); }

}  // namespace

StackedFolder stacked_entries(const EntryMap& entries, const std::string& folder) {
  StackedFolder found;
  for (const auto& names : {ExpertNames(), kMixtralNames}) {
    std::map<std::string, int64_t> experts_of;  // by layer
    for (const auto& [name, entry] : entries)
      if (auto parsed = parse_name(name, names)) {
        auto& count = experts_of[parsed->layer];
        count = std::max(count, parsed->expert + 1);
      }
    if (!experts_of.empty()) found.names = names;
    for (const auto& [layer, experts] : experts_of) {
      found.entries.push_back(stack_of(layer, kGateUp, {names.gate, names.up}, experts, names, entries, folder));
      found.entries.push_back(stack_of(layer, kDown, {names.down}, experts, names, entries, folder));
      auto router = layer + "." + names.block + std::string(kRouter);
      auto stored = entries.find(router);
      if (names.block == "mlp" || stored == entries.end()) continue;
      StackedEntry renamed{*stored->second, {router}};
      renamed.entry.name = layer + ".mlp" + std::string(kRouter);
      found.entries.push_back(std::move(renamed));
    }
  }
  return found;
}

StackedFolder transposed_entries(const EntryMap& entries, int64_t hidden_size) {
  StackedFolder found;
  for (const auto& [name, entry] : entries) {
    if (!name.ends_with(kGateUp)) continue;
    const auto other = entries.find(name.substr(0, name.size() - kGateUp.size()) + std::string(kDown));
    const auto* down = other == entries.end() ? nullptr : other->second;
    if (!is_transposed(*entry, down, hidden_size)) continue;
    found.names = kTransposedNames;
    found.entries.push_back(swapped(*entry));
    if (down && down->shape.size() == 3) found.entries.push_back(swapped(*down));
  }
  return found;
}

Tensor stack_experts(const StackedEntry& entry, const ReadTensor& read) {
  if (entry.transposed) return read(entry.parts.front()).transpose(1, 2).contiguous();
  if (entry.entry.shape.size() < 3) return read(entry.parts.front());
  auto first = read(entry.parts.front());
  auto whole = at::empty(entry.entry.shape, first.options());
  auto rows = whole.view({static_cast<int64_t>(entry.parts.size()), first.size(0), first.size(1)});
  for (size_t i = 0; i < entry.parts.size(); ++i)
    rows.select(0, static_cast<int64_t>(i)).copy_(i == 0 ? first : read(entry.parts[i]));
  return whole;
}

std::vector<TensorSource> unstack_experts(std::vector<TensorSource> tensors, const ExpertNames& names) {
  std::vector<TensorSource> list;
  for (auto& tensor : tensors) {
    const bool stacked = tensor.shape.size() == 3;
    if (names.transposed) {
      const bool swaps = stacked && (tensor.name.ends_with(kGateUp) || tensor.name.ends_with(kDown));
      list.push_back(swaps ? swapped(std::move(tensor)) : std::move(tensor));
    } else if (stacked && tensor.name.ends_with(kGateUp)) {
      append_parts(list, tensor, without_end(tensor.name, kGateUp), {names.gate, names.up}, names);
    } else if (stacked && tensor.name.ends_with(kDown)) {
      append_parts(list, tensor, without_end(tensor.name, kDown), {names.down}, names);
    } else {
      const std::string router = ".mlp" + std::string(kRouter);
      if (tensor.name.ends_with(router))
        tensor.name = without_end(tensor.name, router) + "." + names.block + std::string(kRouter);
      list.push_back(std::move(tensor));
    }
  }
  return list;
}

std::optional<SingleExpert> parse_single_expert(std::string_view module) {
  constexpr std::string_view kMiddle = ".experts.";
  constexpr int64_t kMostSingleExperts = 1 << 16;
  const size_t at = module.rfind(kMiddle);
  if (at == module.npos) return std::nullopt;
  const char *begin = module.data() + at + kMiddle.size(), *end = module.data() + module.size();
  int64_t expert = -1;
  const auto [stop, status] = std::from_chars(begin, end, expert);
  if (status != std::errc() || expert < 0 || expert >= kMostSingleExperts || stop == end || *stop != '.') return std::nullopt;
  return SingleExpert{std::string(module.substr(0, at)), expert, std::string(stop + 1, end)};
}

}  // namespace hone::io

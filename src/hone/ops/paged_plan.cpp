#include "hone/ops/paged_attention.h"

namespace hone::ops {

PagedPlan paged_plan(const std::vector<PagedSequence>& sequences, int64_t block_size, at::Device device) {
  PagedPlan plan;
  std::vector<int32_t> slots, tables, begins, lengths;
  for (const auto& sequence : sequences) {
    if (sequence.count == 1 && plan.decodes == plan.segments.count()) ++plan.decodes;
    int64_t length = sequence.past + sequence.count, blocks = (length + block_size - 1) / block_size;
    plan.segments.append(sequence.count);
    plan.lengths.push_back(length);
    lengths.push_back(static_cast<int32_t>(length));
    begins.push_back(static_cast<int32_t>(tables.size()));
    tables.insert(tables.end(), sequence.blocks.begin(), sequence.blocks.begin() + blocks);
    for (int64_t position = sequence.past; position < length; ++position)
      slots.push_back(static_cast<int32_t>(sequence.blocks[static_cast<size_t>(position / block_size)] * block_size + position % block_size));
  }
  auto tensor = [](const std::vector<int32_t>& values) { return at::tensor(values, at::TensorOptions(at::kInt)); };
  plan.slots_t = tensor(slots);
  plan.tables = tensor(tables);
  plan.table_begins_s = tensor(begins);
  plan.lengths_s = tensor(lengths);
  return moved(std::move(plan), device);
}

PagedPlan moved(PagedPlan plan, at::Device device) {
  for (auto* tensor : {&plan.slots_t, &plan.tables, &plan.table_begins_s, &plan.lengths_s}) *tensor = tensor->to(device);
  return plan;
}

}  // namespace hone::ops

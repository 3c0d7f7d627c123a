#include "hone/tinker/twinkle/processors.h"

#include <algorithm>
#include <set>

#include "hone/serve/http/api_error.h"
#include "hone/serve/http/head.h"
#include "hone/tinker/twinkle/data_loader.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr int64_t kMostOfATenant = 64;          // the least recently used ones are removed,
constexpr size_t kMostBytes = size_t{2} << 30;  // of rows

// Arguments that the client adds for its own process.
void drop_placement(Json& body) {
  for (const char* name : {"remote_group", "device_mesh"}) body.erase(name);
  for (auto each = body.begin(); each != body.end();) each = each->is_null() ? body.erase(each) : std::next(each);
}

}  // namespace

TwinkleProcessors::Entry TwinkleProcessors::find(const std::string& tenant, const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.id == id && entry.tenant == tenant; });
  if (found == entries_.end())
    throw serve::ApiError(404, "there is no processor of this id any more: make it again", "processor_id", "not_found");
  entries_.splice(entries_.begin(), entries_, found);
  return *found;
}

Json TwinkleProcessors::create(const std::string& tenant, Json body) {
  const auto type = required_text(body, "processor_type"), name = required_text(body, "class_type");
  body.erase("processor_type"), body.erase("class_type");
  drop_placement(body);
  Entry entry{"pid:" + serve::fresh_id(""), tenant, nullptr, std::make_shared<std::mutex>()};
  if (type == "dataset" && name == "Dataset") {
    entry.processor = std::make_shared<TwinkleDataset>(served_, root_, body);
  } else if (type == "dataloader" && name == "DataLoader") {
    const auto of = find(tenant, required_text(body, "dataset"));
    auto dataset = std::dynamic_pointer_cast<TwinkleDataset>(of.processor);
    if (!dataset) throw RequestError("dataset: this processor is not a dataset");
    entry.processor = std::make_shared<TwinkleDataLoader>(std::move(dataset), body);
    entry.busy = of.busy;  // its rows are stored under it as well
  } else {
    throw RequestError(fmt::format("{} {} is not supported by this server; expected Dataset or DataLoader", type, name));
  }
  std::lock_guard lock(mutex_);
  entries_.push_front(entry);
  remove_beyond_limits(tenant);
  return {{"processor_id", entry.id}};
}

// Keeps the one in use.
void TwinkleProcessors::remove_beyond_limits(const std::string& tenant) {
  int64_t count = 0;
  size_t bytes = 0;
  std::set<const TwinkleDataset*> counted;  // a dataset and its loaders share their rows
  std::erase_if(entries_, [&](const Entry& each) {
    if (each.tenant != tenant) return false;
    const auto& dataset = each.processor->dataset();
    if (counted.insert(&dataset).second) bytes += dataset.bytes();
    return ++count > 1 && (count > kMostOfATenant || bytes > kMostBytes);
  });
}

Json TwinkleProcessors::call(const std::string& tenant, Json body) {
  const auto entry = find(tenant, required_text(body, "processor_id"));
  const auto function = required_text(body, "function");
  body.erase("processor_id"), body.erase("function");
  drop_placement(body);
  std::lock_guard calling(*entry.busy);
  Json result = {{"result", entry.processor->call(function, body)}};
  std::lock_guard lock(mutex_);
  remove_beyond_limits(tenant);
  return result;
}

}  // namespace hone::tinker

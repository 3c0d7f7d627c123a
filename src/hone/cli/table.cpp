#include "hone/cli/table.h"

#include "hone/base/strings/edit_distance.h"

namespace hone::cli {

namespace table {
void add_group(Rows& rows, std::string_view title, Verbs verbs, std::initializer_list<Option> options) {
  for (Option option : options) {
    option.group = title;
    if (!option.verbs) option.verbs = verbs;
    rows.push_back(option);
  }
}

void add_unsupported_group(Rows& rows, std::string_view title, Verbs verbs, std::string_view reason,
                           std::initializer_list<Option> options) {
  auto first = static_cast<std::ptrdiff_t>(rows.size());
  add_group(rows, title, verbs, options);
  std::for_each(rows.begin() + first, rows.end(), [reason](Option& option) {
    if (option.status == Status::supported) option.status = Status::no_effect, option.reason = reason;
  });
}
}  // namespace table

const std::vector<Option>& options_table() {
  static const std::vector<Option> rows = [] {
    table::Rows all;
    for (auto add : {table::add_model, table::add_hub, table::add_data, table::add_template, table::add_training,
                     table::add_tuners, table::add_optimizers, table::add_output, table::add_generation, table::add_serving,
                     table::add_evaluation, table::add_export, table::add_distributed, table::add_preference, table::add_grpo,
                     table::add_policy_guidance, table::add_compat_only, table::add_tools, table::add_common})
      add(all);
    return all;
  }();
  return rows;
}

std::string_view shown_name(const Option& option, FrontEnd front_end) {
  if (front_end == FrontEnd::factory || front_end == FrontEnd::accelerate)
    for (const auto& alias : option.other_names())
      if (alias.factory) return alias.name;
  return option.name;
}

std::string_view default_text(const Option& option, FrontEnd front_end, Verbs verb) {
  if (front_end == FrontEnd::factory || front_end == FrontEnd::accelerate)
    return option.factory_differs ? option.factory_fallback : option.fallback;
  for (const auto& other : option.verb_defaults)
    if (other.verbs & verb) return other.value;
  return option.fallback;
}

std::string_view status_name(Status status) {
  switch (status) {
    case Status::supported:
      return "supported";
    case Status::always_on:
      return "always so";
    case Status::no_effect:
      return "accepted";
    case Status::rejected:
      return "refused";
  }
  return "";
}

bool belongs_to(const Option& option, FrontEnd front_end) {
  if (front_end == FrontEnd::hone) return true;
  return front_end == FrontEnd::swift ? !option.factory_only : !option.swift_only;
}

NameIndex::NameIndex(FrontEnd front_end, Verbs verb) {
  bool factory = front_end == FrontEnd::factory || front_end == FrontEnd::accelerate;
  auto add = [&](std::string_view name, const Option& option, const Alias* alias) {
    bool native = belongs_to(option, front_end) && (factory ? name == shown_name(option, front_end) : !(alias && alias->factory));
    entries_.push_back({name, {&option, alias}, native});
  };
  for (const auto& option : options_table()) {
    if (!(option.verbs & verb)) continue;
    rows_.push_back(&option);
    add(option.name, option, nullptr);
    for (const auto& alias : option.other_names()) add(alias.name, option, &alias);
  }
  // If two rows share a name, the row of this front end comes first and wins.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.name != b.name ? a.name < b.name : a.native > b.native; });
}

std::optional<NamedOption> NameIndex::find(std::string_view name) const {
  auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name, [](const Entry& e, std::string_view n) { return e.name < n; });
  if (at == entries_.end() || at->name != name) return std::nullopt;
  return at->target;
}

std::optional<NamedOption> NameIndex::find_prefix(std::string_view prefix) const {
  std::optional<NamedOption> found;
  auto at =
      std::lower_bound(entries_.begin(), entries_.end(), prefix, [](const Entry& e, std::string_view n) { return e.name < n; });
  for (; at != entries_.end() && at->name.starts_with(prefix); ++at) {
    if (!at->native) continue;
    if (found && found->option != at->target.option) return std::nullopt;
    if (!found) found = at->target;
  }
  return found;
}

std::vector<std::string_view> NameIndex::names_with_prefix(std::string_view prefix) const {
  std::vector<std::string_view> names;
  for (const auto& entry : entries_)
    if (entry.native && entry.name.starts_with(prefix)) names.push_back(entry.name);
  return names;
}

std::optional<NamedOption> NameIndex::find_letter(char letter) const {
  for (const auto* row : rows_)
    if (row->letter == letter) return NamedOption{row, nullptr};
  return std::nullopt;
}

std::string NameIndex::nearest(std::string_view name) const {
  size_t best = misspelling_limit(name.size()) + 1;
  std::string_view found;
  bool found_native = false;
  for (const auto& entry : entries_) {
    auto distance = edit_distance(name, entry.name);
    if (distance < best || (distance == best && entry.native && !found_native && !found.empty())) {
      best = distance, found = entry.name, found_native = entry.native;
    }
  }
  return std::string(found);
}

}  // namespace hone::cli

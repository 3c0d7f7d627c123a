// The options table: every option of every front end, in groups. Help, docs, completion and parsing all read it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/cli/option.h"

namespace hone::cli {

const std::vector<Option>& options_table();

// An option under its name in one front end and verb.
struct NamedOption {
  const Option* option;
  const Alias* alias;  // null when called by the row's own name
};

class NameIndex {
 public:
  NameIndex(FrontEnd front_end, Verbs verb);

  std::optional<NamedOption> find(std::string_view name) const;  // "learning_rate", dashes already underscores
  // argparse's rule: an unambiguous prefix of an option's name. Used for swift.
  std::optional<NamedOption> find_prefix(std::string_view prefix) const;
  // The options that an ambiguous prefix matches.
  std::vector<std::string_view> names_with_prefix(std::string_view prefix) const;
  std::optional<NamedOption> find_letter(char letter) const;
  std::string nearest(std::string_view name) const;  // "" when nothing is near
  const std::vector<const Option*>& rows() const { return rows_; }

 private:
  struct Entry {
    std::string_view name;
    NamedOption target;
    bool native;  // a name of this front end's own dialect
  };
  std::vector<Entry> entries_;  // sorted by name
  std::vector<const Option*> rows_;
};

// The option's name in this front end.
std::string_view shown_name(const Option& option, FrontEnd front_end);
// As typed: "" is none, "auto" is resolved later.
std::string_view default_text(const Option& option, FrontEnd front_end, Verbs verb);
// Whether the option belongs to this front end's dialect.
bool belongs_to(const Option& option, FrontEnd front_end);

// Why some options about images and videos are only accepted.
constexpr std::string_view kMultimodalUnsupported = "only read by parts of multimodal models that are not in this version";

namespace table {
// Each adds the options of its file.
using Rows = std::vector<Option>;
void add_group(Rows& rows, std::string_view title, Verbs verbs, std::initializer_list<Option> options);
// The same for options of features that are not in this version: accepted, and `reason` says why they have no effect yet.
void add_unsupported_group(Rows& rows, std::string_view title, Verbs verbs, std::string_view reason,
                           std::initializer_list<Option> options);
void add_common(Rows& rows);
void add_model(Rows& rows);
void add_hub(Rows& rows);
void add_data(Rows& rows);
void add_template(Rows& rows);
void add_training(Rows& rows);
void add_tuners(Rows& rows);
void add_optimizers(Rows& rows);
void add_output(Rows& rows);
void add_generation(Rows& rows);
void add_serving(Rows& rows);
void add_evaluation(Rows& rows);
void add_export(Rows& rows);
void add_distributed(Rows& rows);
void add_preference(Rows& rows);
void add_grpo(Rows& rows);
void add_policy_guidance(Rows& rows);
void add_compat_only(Rows& rows);
void add_tools(Rows& rows);
}  // namespace table

}  // namespace hone::cli

// Hubs, credentials, and pushing.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_hub(Rows& rows) {
  constexpr Verbs kNamingModels = kModelUsers | kPreview | kTokenize | kRender | kLogits | kOptimTrace | kDownload;
  add_group(rows, "Hub", kNamingModels,
            {
                {"model_revision", Text, "", "Branch, tag or commit on the hub.", factory_default{"main"}, also{"revision"}},
                {"use_hf", Flag, "false", "Download from Hugging Face instead of ModelScope.", environment{"USE_HF"},
                 factory_default{"true"}},
                {"hub_token", Text, "", "Access token of the hub; none is HF_TOKEN or MODELSCOPE_API_TOKEN.",
                 factory{"hf_hub_token"}, also{"ms_hub_token"}, also{"om_hub_token"}},
                {"cache_dir", Path, "", "Download folder; none is the hub's own cache."},
                {"adapter_folder", Text, "", "Sub-folder of an adapter repository.", only_factory{}, verbs{kModelUsers}},
            });
  add_group(rows, "Download", kDownload,
            {
                {"dataset", Flag, "false", "The id names a dataset."},
                {"local_dir", Path, "", "Plain files in this folder instead of the cache."},
                {"include", List, "", "Only files that match one of these patterns, as in `*.json`."},
                {"exclude", List, "", "Ignore files that match one of these patterns."},
            });
  add_group(rows, "Caches", kCaches,
            {
                {"format", Choice("text|json"), "text", "Output format: text or JSON."},
            });
}

}  // namespace hone::cli::table

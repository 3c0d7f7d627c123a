// deploy and app: a model behind OpenAI's and Anthropic's interfaces, with a chat page.
#include <ctime>

#include "hone/base/log.h"
#include "hone/cli/commands.h"
#include "hone/cli/jobs/data_job.h"
#include "hone/cli/jobs/generation_job.h"
#include "hone/cli/jobs/model_job.h"
#include "hone/cli/jobs/serving_job.h"
#include "hone/hub/locate.h"
#include "hone/serve/openai/embed_model.h"
#include "hone/tuner/adapter.h"

namespace hone::cli {
namespace {

data::EncodeConfig prompt_config(const Options& options) {
  auto config = encode_config(options, 0);
  if (!options.given("guard_special_tokens")) config.guard_special_tokens = true;  // what strangers write stays text
  return config;
}

// The model and the engine on it, with the adapters the command line names.
class Deployment {
 public:
  explicit Deployment(const Options& options)
      : options_(options),
        words_(adapter_words(options)),
        folder_(hub::locate_model(options.required("model"), options.text("model_revision"))),
        tokenizer_(text::load_tokenizer(folder_, new_tokens(options))),
        encoder_(data::Encoder::make(prompt_config(options), tokenizer_, data::read_model_identity(folder_))),
        model_(load_model(options, folder_, *tokenizer_)) {
    change_base();
    engine_ = std::make_unique<engine::Engine>(*model_, tokenizer_, engine_config(options));
    load_adapters();
  }

  int serve(const serve::ServerConfig& config) {
    auto served = describe();
    return serve::run_server(*engine_, served, config, named_);
  }

 private:
  // Plain folders stack: each was trained on top of those before it. All but the last become part of the weights, and the last too
  // with --merge_lora; otherwise it stays beside them, as it was trained.
  void change_base() {
    bool merge = options_.knows("merge_lora") && options_.flag("merge_lora");
    std::vector<std::string> plain;
    for (const auto& word : words_)
      if (word.name.empty()) plain.push_back(word.folder);
    if (merge && plain.size() != words_.size())
      throw UserError(ExitCode::usage, "--merge_lora true with named adapters: a model of its own cannot be merged into the served one",
                      "name no adapter, or leave --merge_lora out");
    for (size_t i = 0; i < plain.size(); ++i) {
      if (i + 1 == plain.size() && !merge) {
        base_adapter_ = plain[i];
        continue;
      }
      tuner::AttachOptions attach;
      attach.name = fmt::format("adapter{}", i);
      tuner::merge_adapter(*model_, tuner::load_adapter(*model_, hub::locate_adapter(plain[i]), attach));
    }
  }

  void load_adapters() {
    if (!base_adapter_.empty()) {
      auto path = hub::locate_adapter(base_adapter_);
      check_adapter_rank(options_, path);
      engine_->load_adapter(kBaseAdapter, path);
    }
    for (const auto& [name, folder] : words_) {
      if (name.empty()) continue;
      auto path = hub::locate_adapter(folder);
      check_adapter_rank(options_, path);
      engine_->load_adapter(name, path);
      if (!named_.emplace(name, path).second) throw UserError(ExitCode::usage, fmt::format("--adapters names \"{}\" twice", name));
    }
  }

  serve::ServedModel describe() const {
    auto name = served_name(options_, options_.required("model"));
    serve::ServedModel served;
    served.name = name.name;
    served.any_name = name.any;
    served.base_adapter = base_adapter_.empty() ? "" : kBaseAdapter;
    served.owned_by = options_.text("owned_by");
    served.created = static_cast<int64_t>(std::time(nullptr));
    served.tokenizer = tokenizer_;
    served.encoder = encoder_;
    served.defaults = sampling_params(options_, folder_);
    served.defaults.include_stop = false;
    served.defaults.end_tokens = encoder_->stop_ids();
    for (auto token : end_tokens(folder_)) served.defaults.end_tokens.push_back(token);
    served.constraints = std::make_shared<engine::ConstraintCompiler>(*tokenizer_, served.defaults.end_tokens);
    served.defaults.constraint = answer_pattern(options_, *tokenizer_, served.defaults.end_tokens);
    served.max_context = engine_->max_context();
    served.max_logprobs = options_.integer("max_logprobs");
    if ((options_.given("max_new_tokens") || speaks_factory(options_)) && options_.integer("max_new_tokens") > 0) served.default_max_tokens = options_.integer("max_new_tokens");
    served.tools = serve::tool_format_of(tokenizer_->chat_template(), encoder_->template_name());
    served.split_thoughts = options_.text("vllm_reasoning_parser") != "none";
    served.embed = serve::make_embed(*model_);
    return served;
  }

  static constexpr const char* kBaseAdapter = "(served)";  // no name a request could give
  const Options& options_;
  std::vector<AdapterWord> words_;
  std::filesystem::path folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const data::Encoder> encoder_;
  std::unique_ptr<model::CausalLM> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::string base_adapter_;
  std::map<std::string, std::filesystem::path> named_;
};

int serve_model(const Options& options, bool page) {
  auto config = server_config(options, page);  // mistakes in it surface before the model is loaded
  return Deployment(options).serve(config);
}

}  // namespace

int deploy_command(const Options& options) { return serve_model(options, false); }
int app_command(const Options& options) { return serve_model(options, true); }

}  // namespace hone::cli

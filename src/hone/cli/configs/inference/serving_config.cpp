#include "hone/cli/configs/inference/serving_config.h"

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/trimmed.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/serve/admin/adapters.h"

namespace hone::cli {
namespace {

constexpr int kPagePort = 7860;

// LLaMA-Factory's server is set up by its environment; what stands on the command line wins.
std::string setting(const Options& options, std::string_view name, const char* variable) {
  if (!options.is_set(name) && uses_factory_dialect(options))
    if (const char* value = std::getenv(variable); value && *value) return value;
  return options.text(name);
}

// None: the default may move on to the next free one.
std::optional<int> chosen_port(const Options& options, bool page) {
  if (options.is_set("port")) return static_cast<int>(options.integer("port"));
  const char* variable = page ? "GRADIO_SERVER_PORT" : "API_PORT";
  const char* value = uses_factory_dialect(options) ? std::getenv(variable) : nullptr;
  if (!value || !*value) return std::nullopt;
  int port = std::atoi(value);
  if (port < 1 || port > 65535)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, value), "expected a port, 1 to 65535");
  return port;
}

std::chrono::milliseconds seconds(double value) { return std::chrono::milliseconds(static_cast<int64_t>(value * 1000)); }

// "@FILE" keeps the key out of the list of processes.
std::string key_in(std::string word) {
  if (!word.starts_with('@')) return word;
  auto key = trimmed(read_file(word.substr(1)));
  if (key.empty())
    throw UserError(ExitCode::usage, fmt::format("--api_key {}: the file is empty", word),
                    "a server without a key is asked for by leaving it out");
  return key;
}

void check_key(const Options& options) {
  if (options.is_set("api_key") && options.text("api_key").empty())
    throw UserError(ExitCode::usage, fmt::format("{} is empty", options.display_name("api_key")),
                    "a server without a key is asked for by leaving it out");
}

void check_files(const serve::ServerConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty())
    throw UserError(ExitCode::usage, "--ssl_certfile and --ssl_keyfile go together", "give both, or neither");
  if (!config.adapter_root.empty() && !fs::is_directory(config.adapter_root))
    throw UserError(ExitCode::usage, fmt::format("--adapter_root {}: no such folder", config.adapter_root.string()));
}

}  // namespace

serve::ServerConfig server_config(const Options& options, bool page) {
  serve::ServerConfig config;
  config.host = setting(options, "host", page ? "GRADIO_SERVER_NAME" : "API_HOST");
  const auto port = chosen_port(options, page);
  config.port = port ? *port : page ? kPagePort : static_cast<int>(options.integer("port"));
  config.port_fixed = port.has_value();
  config.api_key = key_in(setting(options, "api_key", "API_KEY"));
  config.certificate_file = options.text("ssl_certfile");
  config.key_file = options.text("ssl_keyfile");
  config.allowed_origins = options.list("allowed_origins");
  config.adapter_root = options.text("adapter_root");
  config.sleep_allowed = options.flag("enable_sleep_mode");
  config.max_adapters = static_cast<size_t>(options.integer("max_loras"));
  config.http.connections = static_cast<size_t>(options.integer("max_connections"));
  config.http.body_bytes = static_cast<size_t>(options.integer("max_body"));
  config.http.write = seconds(options.real("write_timeout"));
  config.engine.live_sequences =
      static_cast<size_t>(max_num_seqs(options) * data_parallel_size(options) + options.integer("max_queue"));
  config.engine.live_tokens = static_cast<size_t>(options.integer("max_live_tokens"));
  config.drain = seconds(options.real("drain_timeout"));
  config.watchdog = seconds(options.real("watchdog"));
  config.log_interval = static_cast<int>(std::max<int64_t>(0, options.integer("log_interval")));
  config.log_requests = options.flag("verbose");
  if (options.is_set("result_path")) config.result_file = options.text("result_path");
  config.open_page = page;
  check_key(options);
  check_files(config);
  return config;
}

serve::PageConfig page_look(const Options& options) { return {options.text("studio_title"), options.text("lang")}; }

serve::ProxyConfig proxy_config(const Options& options) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  return {.base_url = options.text("base_url"),
          .key = variable("OPENAI_API_KEY"),
          .look = page_look(options),
          .trusted = {.file = variable("SSL_CERT_FILE"), .folder = variable("SSL_CERT_DIR")}};
}

std::vector<AdapterSpec> adapter_words(const Options& options) {
  std::vector<AdapterSpec> words;
  for (const auto& word : options.list("adapters")) {
    auto equals = word.find('=');
    if (equals == std::string::npos || fs::exists(word)) {
      words.push_back({"", word});
      continue;
    }
    words.push_back({word.substr(0, equals), word.substr(equals + 1)});
    try {
      serve::Adapters::check_name(words.back().name);
    } catch (const std::exception&) {
      throw UserError(ExitCode::usage, fmt::format("--adapters {}: \"{}\" is not a name for an adapter", word, words.back().name),
                      "letters, digits, . _ - and /");
    }
  }
  return words;
}

ServedName served_name(const Options& options, const std::string& model) {
  bool factory = uses_factory_dialect(options);
  auto name = setting(options, "served_model_name", "API_MODEL_NAME");
  if (!name.empty()) return {name, factory};
  if (factory) return {"gpt-3.5-turbo", true};
  auto path = fs::path(model).lexically_normal();
  return {(path.has_filename() ? path.filename() : path.parent_path().filename()).string(), false};
}

}  // namespace hone::cli

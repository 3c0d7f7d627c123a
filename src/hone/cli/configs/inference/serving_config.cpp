#include "hone/cli/configs/inference/serving_config.h"

#include <cstdlib>
#include <set>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/trimmed.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/cli/parsing/environment.h"
#include "hone/serve/admin/adapters.h"

namespace hone::cli {
namespace {

constexpr int kPagePort = 7860;

// LLaMA-Factory's server is configured by environment variables; command-line options take precedence.
std::string setting(const ServerArguments& args, const Arg<std::string>& option, const char* variable) {
  if (!option.is_set() && args.uses_factory_dialect())
    if (const char* value = std::getenv(variable); value && *value) return value;
  return *option;
}

// None: the default port may fall back to the next free one.
std::optional<int> chosen_port(const ServerArguments& args, bool page) {
  if (args.port.is_set()) return static_cast<int>(*args.port);
  const char* variable = page ? "GRADIO_SERVER_PORT" : "API_PORT";
  const char* value = args.uses_factory_dialect() ? std::getenv(variable) : nullptr;
  if (!value || !*value) return std::nullopt;
  int port = std::atoi(value);
  if (port < 1 || port > 65535)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, value), "expected a port, 1 to 65535");
  return port;
}

std::chrono::milliseconds seconds(double value) { return std::chrono::milliseconds(static_cast<int64_t>(value * 1000)); }

// "@FILE" keeps the key out of the process list.
std::string key_in(std::string word) {
  if (!word.starts_with('@')) return word;
  auto key = trimmed(read_file(word.substr(1)));
  if (key.empty())
    throw UserError(ExitCode::usage, fmt::format("--api_key {}: the file is empty", word),
                    "omit it to run a server without a key");
  return key;
}

void check_key(const ServerArguments& args) {
  if (args.api_key.is_set() && args.api_key->empty())
    throw UserError(ExitCode::usage, fmt::format("{} is empty", args.api_key.flag()), "omit it to run a server without a key");
}

void check_files(const serve::ServerConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty())
    throw UserError(ExitCode::usage, "--ssl_certfile and --ssl_keyfile go together", "give both, or neither");
  if (!config.adapter_root.empty() && !fs::is_directory(config.adapter_root))
    throw UserError(ExitCode::usage, fmt::format("--adapter_root {}: no such folder", config.adapter_root.string()));
}

// A request names one model: an adapter with the name of the served one would hide it.
void check_names_differ(const std::vector<AdapterSpec>& adapters, const std::string& served) {
  std::set<std::string> seen;
  for (const auto& [name, folder] : adapters) {
    if (name.empty()) continue;
    if (name == served)
      throw UserError(ExitCode::usage,
                      fmt::format("--adapters {}={}: the served model is called \"{}\" too", name, folder, served),
                      "choose another name for the adapter, or one for the model with --served_model_name");
    if (!seen.insert(name).second)
      throw UserError(ExitCode::usage, fmt::format("--adapters names \"{}\" twice", name),
                      "each adapter needs a name of its own");
  }
}

}  // namespace

serve::ServerConfig server_config(const Options& options, bool page) {
  const GenerationArguments generation_args(options);
  const ServerArguments server_args(options);
  serve::ServerConfig config;
  config.host = setting(server_args, server_args.host, page ? "GRADIO_SERVER_NAME" : "API_HOST");
  const auto port = chosen_port(server_args, page);
  config.port = port ? *port : page ? kPagePort : static_cast<int>(*server_args.port);
  config.port_fixed = port.has_value();
  config.api_key = key_in(setting(server_args, server_args.api_key, "API_KEY"));
  config.certificate_file = *server_args.ssl_certfile;
  config.key_file = *server_args.ssl_keyfile;
  config.allowed_origins = *server_args.allowed_origins;
  config.adapter_root = *server_args.adapter_root;
  config.sleep_allowed = *server_args.enable_sleep_mode;
  config.max_adapters = static_cast<size_t>(*server_args.max_loras);
  config.http.connections = static_cast<size_t>(*server_args.max_connections);
  config.http.body_bytes = static_cast<size_t>(*server_args.max_body);
  config.http.write = seconds(*server_args.write_timeout);
  config.engine.live_sequences =
      static_cast<size_t>(max_num_seqs(options) * data_parallel_size(options) + *server_args.max_queue);
  config.engine.live_tokens = static_cast<size_t>(*server_args.max_live_tokens);
  config.drain = seconds(*server_args.drain_timeout);
  config.watchdog = seconds(*server_args.watchdog);
  config.log_interval = static_cast<int>(std::max<int64_t>(0, *server_args.log_interval));
  config.log_requests = *server_args.verbose;
  if (generation_args.result_path.is_set()) config.result_file = *generation_args.result_path;
  config.open_page = page;
  check_key(server_args);
  check_files(config);
  return config;
}

serve::PageConfig page_look(const Options& options) {
  const ServerArguments args(options);
  return {*args.studio_title, *args.lang};
}

serve::TrustedCertificates trusted_certificates() {
  return {.file = environment_value("SSL_CERT_FILE"), .folder = environment_value("SSL_CERT_DIR")};
}

serve::ProxyConfig proxy_config(const Options& options) {
  return {.base_url = *ServerArguments(options).base_url,
          .key = environment_value("OPENAI_API_KEY"),
          .look = {*ServerArguments(options).studio_title, *ServerArguments(options).lang, "image"},  // offers images
          .trusted = trusted_certificates()};
}

std::vector<AdapterSpec> adapter_words(const Options& options) {
  std::vector<AdapterSpec> words;
  for (const auto& word : *ModelArguments(options).adapters) {
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
  check_names_differ(words, served_name(options, ModelArguments(options).model.required()).name);
  return words;
}

ServedName served_name(const Options& options, const std::string& model) {
  const ServerArguments args(options);
  const bool factory = args.uses_factory_dialect();
  auto name = setting(args, args.served_model_name, "API_MODEL_NAME");
  if (!name.empty()) return {name, factory};
  if (factory) return {"gpt-3.5-turbo", true};
  auto path = fs::path(model).lexically_normal();
  return {(path.has_filename() ? path.filename() : path.parent_path().filename()).string(), false};
}

}  // namespace hone::cli

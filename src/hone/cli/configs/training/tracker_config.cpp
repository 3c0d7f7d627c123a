#include "hone/cli/configs/training/tracker_config.h"

#include <map>
#include <set>

namespace hone::cli {
namespace {

using notify::NotificationChannel;
using notify::NotificationConfig;

std::string text_if_known(const Options& options, std::string_view option) {
  return options.has_option(option) && options.has(option) ? options.text(option) : std::string();
}

std::string webhook_of(const Options& options, std::string_view option) {
  auto url = options.required(option);
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    throw UserError(ExitCode::usage, fmt::format("{} is not an address", options.display_name(option)),
                    "expected https://…, as the bot's settings show it");
  return url;
}

// An address stands in a mail's head: what breaks lines or begins another address has no place in it.
std::string mail_address(const Options& options, std::string_view option, bool several) {
  auto address = options.required(option);
  auto strange = std::ranges::any_of(
      address, [&](unsigned char c) { return c < ' ' || c > '~' || c == '<' || c == '>' || (!several && c == ','); });
  if (strange || address.find('@') == address.npos || address.front() == '@')
    throw UserError(ExitCode::usage,
                    fmt::format("{} is \"{}\"; expected a mail address", options.display_name(option), show_value(address)));
  return address;
}

std::string mail_server(const Options& options) {
  auto server = options.required("swanlab_smtp_server");
  if (server.find_first_of("/@?# ") != server.npos)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is \"{}\"; expected a server's name", options.display_name("swanlab_smtp_server"), server),
                    "its port goes to --swanlab_smtp_port");
  return server;
}

NotificationConfig swift_notification(const Options& options) {
  static const std::map<std::string, NotificationChannel> kWays = {
      {"lark", NotificationChannel::lark},     {"dingtalk", NotificationChannel::dingtalk},
      {"wxwork", NotificationChannel::wxwork}, {"discord", NotificationChannel::discord},
      {"slack", NotificationChannel::slack},   {"email", NotificationChannel::email}};
  if (!options.has("swanlab_notification_method")) return {};
  NotificationConfig notice{.channel = kWays.at(options.text("swanlab_notification_method"))};
  bool signs = notice.channel == NotificationChannel::lark || notice.channel == NotificationChannel::dingtalk ||
               notice.channel == NotificationChannel::email;
  if (signs) notice.secret = options.text("swanlab_secret");
  if (notice.channel != NotificationChannel::email) {
    notice.webhook = webhook_of(options, "swanlab_webhook_url");
    return notice;
  }
  notice.sender = mail_address(options, "swanlab_sender_email", false);
  notice.receivers = mail_address(options, "swanlab_receiver_email", true);
  notice.mail_server = mail_server(options);
  options.required("swanlab_smtp_port");
  notice.mail_port = static_cast<int>(options.integer("swanlab_smtp_port"));
  notice.english = options.text("swanlab_email_language") == "en";
  return notice;
}

NotificationConfig factory_notification(const Options& options) {
  return {.channel = NotificationChannel::lark,
          .webhook = webhook_of(options, "swanlab_lark_webhook_url"),
          .secret = options.text("swanlab_lark_secret")};
}

void read_swanlab(const Options& options, train::TrainerConfig& config) {
  auto& swanlab = config.swanlab;
  swanlab.enabled = std::ranges::count(config.report_to, "swanlab") > 0;
  if (options.has_option("use_swanlab") && options.flag("use_swanlab") && !swanlab.enabled) {
    config.report_to.push_back("swanlab");
    swanlab.enabled = true;
  }
  swanlab.mode = text_if_known(options, "swanlab_mode");
  if (swanlab.mode == "disabled") swanlab.enabled = false;
  swanlab.project = text_if_known(options, "swanlab_project");
  swanlab.workspace = text_if_known(options, "swanlab_workspace");
  swanlab.name = text_if_known(options, "swanlab_exp_name");
  swanlab.token = text_if_known(options, "swanlab_token");
  swanlab.folder = text_if_known(options, "swanlab_logdir");
  if (swanlab.enabled)
    swanlab.notification = options.has("swanlab_lark_webhook_url") ? factory_notification(options) : swift_notification(options);
}

// A name as one part of a path.
std::string file_name_of(std::string name) {
  std::ranges::replace(name, '/', '-');
  return name == "." || name == ".." ? "" : name;
}

}  // namespace

void read_trackers(const Options& options, train::TrainerConfig& config) {
  static const std::set<std::string> kTrackers = {"tensorboard", "wandb",      "swanlab",  "all",     "azure_ml",
                                                  "clearml",     "codecarbon", "comet_ml", "dagshub", "dvclive",
                                                  "flyte",       "mlflow",     "neptune",  "trackio"};
  for (const auto& name : options.list("report_to")) {
    if (name == "none") continue;
    if (!kTrackers.contains(name))
      throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", options.display_name("report_to"), name),
                      "expected tensorboard, wandb, swanlab or none");
    config.report_to.push_back(name);
  }
  read_swanlab(options, config);
  // A run is called after its folder, in TensorBoard and by all who read its files.
  const auto& asked = config.swanlab.enabled && options.has("swanlab_exp_name") ? "swanlab_exp_name" : "run_name";
  const auto part = [&](const char* option) { return options.has(option) ? file_name_of(options.text(option)) : std::string(); };
  config.run_name = fs::path(part("project")) / part(asked);
}

}  // namespace hone::cli

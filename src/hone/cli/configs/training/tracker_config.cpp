#include "hone/cli/configs/training/tracker_config.h"

#include <map>
#include <set>

#include "hone/cli/arguments/output.h"

namespace hone::cli {
namespace {

using notify::NotificationChannel;
using notify::NotificationConfig;

std::string webhook_of(const Arg<std::string>& option) {
  auto url = option.required();
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    throw UserError(ExitCode::usage, fmt::format("{} is not an address", option.flag()),
                    "expected https://…, as the bot's settings show it");
  return url;
}

// The address goes into a mail header, so line breaks and separators of addresses are rejected.
std::string mail_address(const Arg<std::string>& option, bool several) {
  auto address = option.required();
  auto strange = std::ranges::any_of(
      address, [&](unsigned char c) { return c < ' ' || c > '~' || c == '<' || c == '>' || (!several && c == ','); });
  if (strange || address.find('@') == address.npos || address.front() == '@')
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; expected a mail address", option.flag(), show_value(address)));
  return address;
}

std::string mail_server(const TrackerArguments& args) {
  auto server = args.swanlab_smtp_server.required();
  if (server.find_first_of("/@?# ") != server.npos)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is \"{}\"; expected a server's name", args.swanlab_smtp_server.flag(), server),
                    "its port goes to --swanlab_smtp_port");
  return server;
}

NotificationConfig swift_notification(const TrackerArguments& args) {
  static const std::map<std::string, NotificationChannel> kWays = {
      {"lark", NotificationChannel::lark},     {"dingtalk", NotificationChannel::dingtalk},
      {"wxwork", NotificationChannel::wxwork}, {"discord", NotificationChannel::discord},
      {"slack", NotificationChannel::slack},   {"email", NotificationChannel::email}};
  if (!args.swanlab_notification_method.has_value()) return {};
  NotificationConfig notice{.channel = kWays.at(*args.swanlab_notification_method)};
  bool signs = notice.channel == NotificationChannel::lark || notice.channel == NotificationChannel::dingtalk ||
               notice.channel == NotificationChannel::email;
  if (signs) notice.secret = *args.swanlab_secret;
  if (notice.channel != NotificationChannel::email) {
    notice.webhook = webhook_of(args.swanlab_webhook_url);
    return notice;
  }
  notice.sender = mail_address(args.swanlab_sender_email, false);
  notice.receivers = mail_address(args.swanlab_receiver_email, true);
  notice.mail_server = mail_server(args);
  args.swanlab_smtp_port.required();
  notice.mail_port = static_cast<int>(*args.swanlab_smtp_port);
  notice.english = *args.swanlab_email_language == "en";
  return notice;
}

NotificationConfig factory_notification(const TrackerArguments& args) {
  return {.channel = NotificationChannel::lark,
          .webhook = webhook_of(args.swanlab_lark_webhook_url),
          .secret = *args.swanlab_lark_secret};
}

void read_swanlab(const TrackerArguments& args, train::TrainerConfig& config) {
  auto& swanlab = config.swanlab;
  swanlab.enabled = std::ranges::count(config.report_to, "swanlab") > 0;
  if (*args.use_swanlab && !swanlab.enabled) {
    config.report_to.push_back("swanlab");
    swanlab.enabled = true;
  }
  swanlab.mode = args.swanlab_mode.value_or("");
  if (swanlab.mode == "disabled") swanlab.enabled = false;
  swanlab.project = args.swanlab_project.value_or("");
  swanlab.workspace = args.swanlab_workspace.value_or("");
  swanlab.name = args.swanlab_exp_name.value_or("");
  swanlab.token = args.swanlab_token.value_or("");
  swanlab.folder = args.swanlab_logdir.value_or("");
  if (swanlab.enabled)
    swanlab.notification = args.swanlab_lark_webhook_url.has_value() ? factory_notification(args) : swift_notification(args);
}

// The name as a single path component.
std::string file_name_of(std::string name) {
  std::ranges::replace(name, '/', '-');
  return name == "." || name == ".." ? "" : name;
}

}  // namespace

void read_trackers(const Options& options, train::TrainerConfig& config) {
  const TrackerArguments args(options);
  static const std::set<std::string> kTrackers = {"tensorboard", "wandb",      "swanlab",  "all",     "azure_ml",
                                                  "clearml",     "codecarbon", "comet_ml", "dagshub", "dvclive",
                                                  "flyte",       "mlflow",     "neptune",  "trackio"};
  for (const auto& name : *args.report_to) {
    if (name == "none") continue;
    if (!kTrackers.contains(name))
      throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", args.report_to.flag(), name),
                      "expected tensorboard, wandb, swanlab or none");
    config.report_to.push_back(name);
  }
  read_swanlab(args, config);
  // The run is named after its folder in TensorBoard and in all of its files.
  const auto& asked = config.swanlab.enabled && args.swanlab_exp_name.has_value() ? args.swanlab_exp_name : args.run_name;
  config.run_name = fs::path(file_name_of(args.project.value_or(""))) / file_name_of(asked.value_or(""));
}

}  // namespace hone::cli

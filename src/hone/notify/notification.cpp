#include "hone/notify/notification.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace hone::notify {
namespace {

struct NotificationTexts {
  const char *title, *done, *failed;                  // chat message; {} is the error
  const char *subject_done, *subject_failed;          // mail
  const char *heading_done, *heading_failed, *cause;  // its HTML page
  const char *project, *workspace, *name, *description, *place;
};

constexpr NotificationTexts kChinese = {"SwanLab 消息通知",
                                        "SwanLab | 您的实验已成功完成",
                                        "您的 SwanLab 实验遇到错误: {}",
                                        "SwanLab | 实验已成功完成",
                                        "SwanLab | 实验遇到错误",
                                        "✅ 实验已成功完成",
                                        "❌ 实验失败",
                                        "错误详情",
                                        "项目",
                                        "工作区",
                                        "实验名",
                                        "描述",
                                        "实验链接"};
constexpr NotificationTexts kEnglish = {"SwanLab Message Notification",
                                        "SwanLab | Your experiment completed successfully",
                                        "Your SwanLab experiment encountered an error: {}",
                                        "SwanLab | Experiment Completed Successfully",
                                        "SwanLab | Experiment Encountered an Error",
                                        "✅ Experiment Completed Successfully",
                                        "❌ Experiment Failed",
                                        "Error Details",
                                        "Project",
                                        "Workspace",
                                        "Name",
                                        "Description",
                                        "Experiment Link"};

const NotificationTexts& words_in(bool english) { return english ? kEnglish : kChinese; }

std::array<std::pair<const char*, const std::string*>, 5> details_of(const Notification& notice, const NotificationTexts& words) {
  return {{{words.project, &notice.project},
           {words.workspace, &notice.workspace},
           {words.name, &notice.name},
           {words.description, &notice.description},
           {words.place, &notice.place}}};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string notification_subject(const Notification& notice, bool english) {
  const auto& words = words_in(english);
  return notice.error.empty() ? words.subject_done : words.subject_failed;
}

std::string notification_text(const Notification& notice, bool english) {
  const auto& words = words_in(english);
  auto text = fmt::format("{}\n{}", words.title,
                          notice.error.empty() ? words.done : fmt::format(fmt::runtime(words.failed), notice.error));
  for (const auto& [label, value] : details_of(notice, words)) text += fmt::format("\n{}: {}", label, *value);
  return text;
}

std::string notification_html(const Notification& notice, bool english) {
  const auto& words = words_in(english);
  bool well = notice.error.empty();
  auto page = fmt::format(
      "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"></head><body style=\"font-family:sans-serif\">\n"
      "<h2 style=\"border-top:3px solid {}\">{}</h2>\n",
      well ? "#30d158" : "#ff3b30", well ? words.heading_done : words.heading_failed);
  if (!well) page += fmt::format("<p><b>{}</b><br>{}</p>\n", words.cause, escaped(notice.error));
  page += "<table>\n";
  for (const auto& [label, value] : details_of(notice, words))
    page += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", label, escaped(*value));
  return page + "</table>\n</body></html>\n";
}

}  // namespace hone::notify

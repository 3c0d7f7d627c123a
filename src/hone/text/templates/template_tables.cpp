#include "hone/text/templates/template_tables.h"

#include <ctime>
#include <map>

#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/tables.h"

namespace hone::text {
namespace {

template <class Template>
using Index = std::map<std::string, Template, std::less<>>;

template <class Template>
void add(Index<Template>& index, std::vector<Template> table) {
  for (auto& chat_template : table) {
    auto name = chat_template.name;
    index.emplace(std::move(name), std::move(chat_template));
  }
}

std::string with_dates(const std::string& text) {
  if (text.find("{{DATE_") == std::string::npos && text.find("{{YESTERDAY_ISO}}") == std::string::npos) return text;
  auto dated = replace_all(text, "{{DATE_DMY}}", today("%d %b %Y"));
  dated = replace_all(std::move(dated), "{{DATE_ISO}}", today("%Y-%m-%d"));
  std::time_t yesterday = std::time(nullptr) - 24 * 3600;
  std::tm local{};
  localtime_r(&yesterday, &local);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d", &local);
  return replace_all(std::move(dated), "{{YESTERDAY_ISO}}", buffer);
}

void fill_dates(TemplateSlots& pieces) {
  for (auto& piece : pieces) piece.text = with_dates(piece.text);
}

const Index<SwiftTemplate>& swift_index() {
  static const auto index = [] {
    Index<SwiftTemplate> index;
    add(index, swift_templates_a_f());
    add(index, swift_templates_g_l());
    add(index, swift_templates_m_z());
    for (auto& [name, chat_template] : index) {
      fill_dates(chat_template.prefix);
      if (chat_template.system_prefix) fill_dates(*chat_template.system_prefix);
      if (chat_template.default_system) *chat_template.default_system = with_dates(*chat_template.default_system);
    }
    return index;
  }();
  return index;
}

const Index<FactoryTemplate>& factory_index() {
  static const auto index = [] {
    Index<FactoryTemplate> index;
    add(index, factory_templates_a_l());
    add(index, factory_templates_l_z());
    return index;
  }();
  return index;
}

template <class Template>
std::vector<std::string> names_of(const Index<Template>& index) {
  std::vector<std::string> names;
  for (const auto& [name, chat_template] : index) names.push_back(name);
  return names;
}

}  // namespace

const SwiftTemplate* find_swift_template(std::string_view name) {
  auto found = swift_index().find(name);
  return found == swift_index().end() ? nullptr : &found->second;
}

const FactoryTemplate* find_factory_template(std::string_view name) {
  auto found = factory_index().find(name);
  return found == factory_index().end() ? nullptr : &found->second;
}

std::vector<std::string> swift_template_names() { return names_of(swift_index()); }
std::vector<std::string> factory_template_names() { return names_of(factory_index()); }

std::string today(const char* strftime_format) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[64];
  return {buffer, std::strftime(buffer, sizeof buffer, strftime_format, &local)};
}

}  // namespace hone::text

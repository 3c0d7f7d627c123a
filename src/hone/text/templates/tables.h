// Declarations shared by the template tables. Included only by template_tables.cpp and the tables.
#pragma once
#include "hone/text/templates/template_tables.h"

namespace hone::text {

inline const TemplateSlot kBos{TemplateSlot::Kind::bos}, kEos{TemplateSlot::Kind::eos};
inline TemplateSlot token(std::string name) { return {TemplateSlot::Kind::token, std::move(name)}; }
inline TemplateSlot id(int number) { return {TemplateSlot::Kind::id, {}, number}; }

std::vector<SwiftTemplate> swift_templates_a_f();
std::vector<SwiftTemplate> swift_templates_g_l();
std::vector<SwiftTemplate> swift_templates_m_z();
std::vector<FactoryTemplate> factory_templates_a_l();
std::vector<FactoryTemplate> factory_templates_l_z();

}  // namespace hone::text

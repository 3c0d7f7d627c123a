// What the template tables share. Only dialog.cpp and the tables include this.
#pragma once
#include "hone/text/templates/dialog.h"

namespace hone::text {

inline const Piece kBos{Piece::Kind::bos}, kEos{Piece::Kind::eos};
inline Piece token(std::string name) { return {Piece::Kind::token, std::move(name)}; }
inline Piece id(int number) { return {Piece::Kind::id, {}, number}; }

std::vector<SwiftDialog> swift_dialogs_a_f();
std::vector<SwiftDialog> swift_dialogs_g_l();
std::vector<SwiftDialog> swift_dialogs_m_z();
std::vector<FactoryDialog> factory_dialogs_a_l();
std::vector<FactoryDialog> factory_dialogs_l_z();

}  // namespace hone::text

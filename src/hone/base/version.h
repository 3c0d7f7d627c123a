// hone's version, which CMakeLists.txt sets.
#pragma once

namespace hone {

const char* version();

}  // namespace hone

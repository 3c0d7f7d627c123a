// The Python program that starts ranks as actors of a Ray cluster. Ray has no C++ interface for drivers that its wheel carries.
#pragma once

namespace hone::cli {

extern const char* const kRayDriver;

}  // namespace hone::cli

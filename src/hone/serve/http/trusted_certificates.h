// The certificates that a client trusts.
#pragma once
#include <string>

namespace hone::serve {

// PEM files; if empty, this machine's own.
struct TrustedCertificates {
  std::string file, folder;
};

}  // namespace hone::serve

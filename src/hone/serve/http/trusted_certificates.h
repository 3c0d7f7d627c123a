// Whose certificates a client trusts.
#pragma once
#include <string>

namespace hone::serve {

// PEM files; what is empty is this machine's own.
struct TrustedCertificates {
  std::string file, folder;
};

}  // namespace hone::serve

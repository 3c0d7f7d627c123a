// The torch wheel exports Gloo's symbols but carries none of its headers. These stand-ins declare just what ProcessGroupGloo.hpp
// names.
#pragma once

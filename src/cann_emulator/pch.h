// Precompiled for every file of the emulator that computes. Libraries' headers only: a compiler cache may hand out a copy made
// before a comment in it changed, and a header of ours would then be defined twice.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

// Cairo images as PNG files.
#pragma once
#include <cairo.h>

#include <string>

namespace hone::train {

// Plots are mostly runs of one color: they are compressed by run lengths, in a fraction of the time of Cairo's own writer.
// `surface` is an image in CAIRO_FORMAT_RGB24.
std::string encode_png(cairo_surface_t* surface);

}  // namespace hone::train

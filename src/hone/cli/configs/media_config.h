// From options and ms-swift's environment variables to the limits of images, videos and audio, and to where they come from.
#pragma once
#include <functional>
#include <string>

#include "hone/base/error.h"
#include "hone/cli/options.h"
#include "hone/data/encode/encoder.h"

namespace hone::cli {

data::PictureOptions picture_options(const Options& options);
// Fetches media that requests refer to by URL, from the hosts of SWIFT_URL_ALLOWED_HOSTS; null if there are none.
std::function<Result<std::string>(const std::string& url)> request_media_fetcher();

}  // namespace hone::cli

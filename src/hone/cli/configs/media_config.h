// From options and ms-swift's environment variables to the limits of images, videos and audio, and to where they come from.
#pragma once
#include "hone/cli/options.h"
#include "hone/data/encode/encoder.h"
#include "hone/hub/fetch_url.h"

namespace hone::cli {

data::PictureOptions picture_options(const Options& options);
// Fetches media that requests refer to by URL, from the hosts of SWIFT_URL_ALLOWED_HOSTS; null if there are none.
hub::FetchBytes request_media_fetcher();

}  // namespace hone::cli

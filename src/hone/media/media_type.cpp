#include "hone/media/media_type.h"

#include <array>

namespace hone::media {

using namespace std::string_view_literals;

std::string media_type(std::string_view bytes) {
  struct Signature {
    size_t at;
    std::string_view bytes, type;
  };
  constexpr std::array kSignatures{
      Signature{0, "\x89PNG"sv, "image/png"},     Signature{0, "\xff\xd8\xff"sv, "image/jpeg"},
      Signature{8, "WEBP"sv, "image/webp"},       Signature{0, "GIF8"sv, "image/gif"},
      Signature{0, "BM"sv, "image/bmp"},          Signature{0, "II*\0"sv, "image/tiff"},
      Signature{0, "MM\0*"sv, "image/tiff"},      Signature{8, "WAVE"sv, "audio/wav"},
      Signature{0, "fLaC"sv, "audio/flac"},       Signature{0, "OggS"sv, "audio/ogg"},
      Signature{0, "ID3"sv, "audio/mp3"},         Signature{0, "\xff\xfb"sv, "audio/mp3"},
      Signature{0, "\xff\xf3"sv, "audio/mp3"},    Signature{0, "\xff\xf2"sv, "audio/mp3"},
      Signature{8, "M4A "sv, "audio/m4a"},        Signature{4, "ftypqt"sv, "video/quicktime"},
      Signature{4, "ftyp"sv, "video/mp4"},        Signature{0, "\x1a\x45\xdf\xa3"sv, "video/webm"},
      Signature{8, "AVI "sv, "video/x-msvideo"},  Signature{0, "\0\0\1\xba"sv, "video/mpeg"},
      Signature{0, "\0\0\1\xb3"sv, "video/mpeg"}, Signature{0, "\xff\xfa"sv, "audio/mp3"},
  };
  for (const auto& signature : kSignatures)
    if (bytes.size() > signature.at && bytes.substr(signature.at).starts_with(signature.bytes))
      return std::string(signature.type);
  return "application/octet-stream";
}

}  // namespace hone::media

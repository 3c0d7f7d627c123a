#include "hone/tinker/api/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hone::tinker {
namespace {

constexpr size_t kBlock = 512, kPiece = size_t{1} << 20;

// A number of `width` - 1 octal digits; larger sizes in binary, as GNU tar writes them.
void put_number(std::string& header, size_t place, size_t width, uint64_t value) {
  auto digits = fmt::format("{:0{}o}", value, width - 1);
  if (digits.size() == width - 1) {
    header.replace(place, digits.size(), digits);
    return;
  }
  for (size_t i = 0; i < width; ++i) header[place + i] = static_cast<char>(i + 8 < width ? 0 : value >> (8 * (width - 1 - i)));
  header[place] = static_cast<char>(0x80);
}

std::string header_of(const std::string& name, uint64_t size) {
  std::string header(kBlock, '\0');
  header.replace(0, name.size(), name);
  put_number(header, 100, 8, 0644);
  put_number(header, 108, 8, 0);
  put_number(header, 116, 8, 0);
  put_number(header, 124, 12, size);
  put_number(header, 136, 12, 0);
  header.replace(148, 8, "        ");
  header[156] = '0';
  header.replace(257, 8, std::string("ustar\00000", 8));
  uint64_t sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return header;
}

}  // namespace

TarReader::TarReader(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  files_.reserve(names.size());
  for (const auto& name : names) {
    const auto text = files_.emplace_back(folder / name).text();
    append(header_of(name, text.size()));
    parts_.push_back(text);
    append(std::string((kBlock - text.size() % kBlock) % kBlock, '\0'));
  }
  append(std::string(2 * kBlock, '\0'));
}

void TarReader::append(std::string text) { parts_.emplace_back(texts_.emplace_back(std::move(text))); }

std::string TarReader::next() {
  std::string piece;
  while (!parts_.empty() && piece.size() < kPiece) {
    auto& part = parts_.front();
    const auto taken = part.substr(0, kPiece - piece.size());
    piece += taken;
    part.remove_prefix(taken.size());
    if (part.empty()) parts_.pop_front();
  }
  return piece;
}

}  // namespace hone::tinker

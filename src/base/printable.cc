#include "base/printable.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace r2ccl {
namespace {

constexpr std::string_view kCut = "...";

struct Range {
  char32_t first;
  char32_t last;
};

// Characters that control a terminal, or that are invisible.
constexpr std::array kUnprintable = {
    Range{0x0000, 0x001f},    // C0 controls
    Range{0x007f, 0x009f},    // DEL and the C1 controls: U+009B begins an escape sequence, too
    Range{0x00ad, 0x00ad},    // soft hyphen
    Range{0x061c, 0x061c},    // Arabic letter mark
    Range{0x180e, 0x180e},    // Mongolian vowel separator
    Range{0x200b, 0x200f},    // zero width, and the marks of direction
    Range{0x2028, 0x202e},    // separators of lines and paragraphs; bidi embeddings and overrides
    Range{0x2060, 0x206f},    // invisible operators; bidi isolates; deprecated format characters
    Range{0xfeff, 0xfeff},    // byte order mark
    Range{0xfff9, 0xfffb},    // interlinear annotations
    Range{0xe0000, 0xe0fff},  // tags, which are invisible
};

char32_t character_of(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  // The first byte holds 7 - length bits; each other byte holds six.
  char32_t value = byte(0) & (0x7fU >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) value = value << 6 | (byte(i) & 0x3fU);
  return value;
}

bool is_shown(std::string_view sequence) {
  const char32_t character = character_of(sequence);
  return std::ranges::none_of(kUnprintable, [character](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

}  // namespace

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and values beyond the last character are wrong.
  const unsigned second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

std::string printable_text(std::string_view text, size_t bytes_max) {
  R2CCL_CHECK(bytes_max >= kCut.size());
  std::string out;
  size_t kept = 0;  // length of `out` if it must be truncated
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    const std::string_view sequence = text.substr(at, std::max<size_t>(length, 1));
    if (length != 0 && is_shown(sequence)) {
      out += sequence;
    } else {
      out += '?';
    }
    if (out.size() > bytes_max) return out.substr(0, kept).append(kCut);
    if (out.size() + kCut.size() <= bytes_max) kept = out.size();
    at += sequence.size();
  }
  return out;
}

std::string printable_text(std::span<const std::byte> bytes, size_t bytes_max) {
  return printable_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, bytes_max);
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0 || !is_shown(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace r2ccl

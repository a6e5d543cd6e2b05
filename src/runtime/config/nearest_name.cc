#include "runtime/config/nearest_name.h"

#include <algorithm>
#include <vector>

namespace r2ccl {
namespace {

// A longer name is no typing error. The environment may hold names of any length.
constexpr size_t kNameBytesMax = 64;

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before;
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t wrong = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view text, std::span<const std::string_view> names) {
  if (text.size() > kNameBytesMax) return "";
  std::string_view best;
  // A third of the letters may be wrong. With more errors it is another word.
  size_t best_distance = text.size() / 3 + 1;
  for (const std::string_view name : names) {
    const size_t here = distance(text, name);
    if (here >= best_distance) continue;
    best_distance = here;
    best = name;
  }
  return std::string(best);
}

}  // namespace r2ccl

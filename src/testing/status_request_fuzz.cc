#include <charconv>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/printable.h"
#include "runtime/admin/drain_requests.h"
#include "runtime/admin/status_server.h"
#include "testing/fuzz.h"
#include "testing/fuzz_text.h"

namespace r2ccl {
namespace {

const char* word_of(DrainVerb verb) {
  switch (verb) {
    case DrainVerb::check:
      return "check";
    case DrainVerb::drain:
      return "start";
    case DrainVerb::undo:
      return "undo";
    case DrainVerb::take_back:
      return "back";
  }
  return "";
}

// Returns the line that asks for `request`.
std::string line_of(const DrainRequest& request) {
  std::string verb = word_of(request.verb);
  if (request.ticket != 0) {
    char digits[16];
    const auto written = std::to_chars(digits, digits + sizeof digits, request.ticket, 16);
    verb += ":" + std::string(digits, written.ptr);
  }
  return "drain " + verb + " " + request.nic + " " + request.host + "\n";
}

// Returns whether a reader of JSON takes each character. `r2ccl drain` escapes the others that a
// terminal obeys.
bool is_json_text(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7f) return false;
    text.remove_prefix(length);
  }
  return true;
}

// The only rank of a job answers every line at once.
void check_answer(const std::string& line) {
  RankInfo info;
  info.rank = Rank(0);
  info.host_name = "node0";
  info.nics.emplace_back().name = "nic0";
  RankQuery query(Rank(0), 1, {});
  DrainRequests requests(query, 1, [](const DrainQuestion& question) {
    R2CCL_CHECK(question.nic == "nic0");
    return DrainTally();
  });
  const auto answer = requests.answer(1, line, {info}, 0);
  R2CCL_CHECK(answer && answer->starts_with('{') && answer->ends_with('}'));
  R2CCL_CHECK(is_json_text(*answer));
}

}  // namespace

bool fuzz_status_request(std::span<const std::byte> input) {
  const std::string line = fuzz_text(input);
  const auto kind = parse_status_request(line);
  const auto request = parse_drain_request(line);
  R2CCL_CHECK(!request || kind == StatusRequest::drain);
  if (kind != StatusRequest::drain) return kind.has_value();
  check_answer(line);
  if (!request) return false;
  R2CCL_CHECK(request->verb != DrainVerb::take_back || request->ticket != 0);
  R2CCL_CHECK(request->nic.size() <= kDrainNicBytesMax);
  R2CCL_CHECK(parse_drain_request(line_of(*request)) == *request);
  return true;
}

}  // namespace r2ccl

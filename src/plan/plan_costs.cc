#include "plan/plan_costs.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace r2ccl {
namespace {

constexpr uint64_t kPsPerNs = 1000;
constexpr size_t kPsDigits = 3;
// By the place of a cost: the others are in ns.
constexpr std::array<bool, 7> kInPs{false, false, true, true, false, false, true};

// Returns the ns with as many decimals as it needs.
std::string text_of_ps(uint64_t ps) {
  std::string text = std::to_string(ps / kPsPerNs);
  std::string rest = std::to_string(kPsPerNs + ps % kPsPerNs).substr(1);
  rest.erase(rest.find_last_not_of('0') + 1);
  return rest.empty() ? text : text + "." + rest;
}

// These return the end of the number, or null where there is none.
const char* read_number(const char* at, const char* end, uint64_t& number) {
  const auto [next, error] = std::from_chars(at, end, number);
  return error == std::errc() ? next : nullptr;
}
const char* read_ps(const char* at, const char* end, uint64_t& ps) {
  uint64_t whole = 0;
  const char* next = read_number(at, end, whole);
  if (next == nullptr || whole >= UINT64_MAX / kPsPerNs) return nullptr;
  std::string decimals;
  if (next != end && *next == '.') {
    for (++next; next != end && *next >= '0' && *next <= '9'; ++next) decimals += *next;
    if (decimals.empty() || decimals.size() > kPsDigits) return nullptr;
  }
  decimals.resize(kPsDigits, '0');
  uint64_t part = 0;
  (void)read_number(decimals.data(), decimals.data() + kPsDigits, part);
  ps = whole * kPsPerNs + part;
  return next;
}

// Returns the value with its three highest binary digits, rounded, and at most `most`.
uint64_t rounded(uint64_t value, uint64_t most) {
  value = std::min(value, most);
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - 3);
  const uint64_t half = shift == 0 ? 0 : uint64_t{1} << (shift - 1);
  return (value + half) >> shift << shift;
}

DomainCosts bounded(const DomainCosts& costs) {
  return {.hop_ns = rounded(costs.hop_ns, kHopNsMax),
          .message_ns = rounded(costs.message_ns, kMessageNsMax),
          .kib_ps = rounded(costs.kib_ps, kKibPsMax),
          .fan_kib_ps = rounded(costs.fan_kib_ps, kKibPsMax),
          .leader_hop_ns = rounded(costs.leader_hop_ns, kHopNsMax),
          .leader_message_ns = rounded(costs.leader_message_ns, kMessageNsMax),
          .leader_kib_ps = rounded(costs.leader_kib_ps, kKibPsMax)};
}

}  // namespace

CostNumbers numbers_of(const DomainCosts& costs) {
  return {costs.hop_ns,        costs.message_ns,        costs.kib_ps,       costs.fan_kib_ps,
          costs.leader_hop_ns, costs.leader_message_ns, costs.leader_kib_ps};
}

DomainCosts domain_costs(const CostNumbers& numbers) {
  return {.hop_ns = numbers[0],
          .message_ns = numbers[1],
          .kib_ps = numbers[2],
          .fan_kib_ps = numbers[3],
          .leader_hop_ns = numbers[4],
          .leader_message_ns = numbers[5],
          .leader_kib_ps = numbers[6]};
}

std::string to_string(const DomainCosts& costs) {
  std::string text;
  const CostNumbers numbers = numbers_of(costs);
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (text.empty() ? "" : ",") +
            (kInPs[i] ? text_of_ps(numbers[i]) : std::to_string(numbers[i]));
  }
  return text;
}

std::optional<DomainCosts> parse_domain_costs(std::string_view text) {
  CostNumbers numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return std::nullopt;
    const char* const next =
        kInPs[i] ? read_ps(at, end, numbers[i]) : read_number(at, end, numbers[i]);
    if (next == nullptr) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return domain_costs(numbers);
}

PlanCosts bounded(const PlanCosts& costs) {
  return {.memory = bounded(costs.memory), .network = bounded(costs.network)};
}

}  // namespace r2ccl

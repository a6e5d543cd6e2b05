#include "plan/plan_costs.h"

#include <charconv>

namespace r2ccl {

CostNumbers numbers_of(const DomainCosts& costs) {
  return {costs.hop_ns,        costs.message_ns,        costs.kib_ns,       costs.fan_kib_ns,
          costs.leader_hop_ns, costs.leader_message_ns, costs.leader_kib_ns};
}

DomainCosts domain_costs(const CostNumbers& numbers) {
  return {.hop_ns = numbers[0],
          .message_ns = numbers[1],
          .kib_ns = numbers[2],
          .fan_kib_ns = numbers[3],
          .leader_hop_ns = numbers[4],
          .leader_message_ns = numbers[5],
          .leader_kib_ns = numbers[6]};
}

std::string to_string(const DomainCosts& costs) {
  std::string text;
  for (const uint64_t number : numbers_of(costs)) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::optional<DomainCosts> parse_domain_costs(std::string_view text) {
  CostNumbers numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return domain_costs(numbers);
}

}  // namespace r2ccl

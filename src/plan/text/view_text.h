// Views as text, in the text form of plans and as an option of commands:
//
//   1000,500/1000,1000     two hosts of two NICs each; the second NIC of the first is at one half
//   6x1000,2x0/3*8x1000    four hosts of eight NICs; the first host has lost two of them
//   1000:250               a NIC that sends at the full rate, and receives at a quarter
//
// The hosts stand between slashes and their NICs, by rail, between commas. A rate is in 1/1000 of a
// whole NIC. "3*" repeats a host, "8x" a NIC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/hosts/view.h"

namespace r2ccl {

// Returns "" for the empty view.
std::string to_text(const View& view);

// Returns the rate that "500" or "1000:250" gives a NIC.
Result<NicRate> parse_rate(std::string_view text);

// Return the rates of `hosts` hosts, and their view. They fail where the text is no such view.
Result<std::vector<HostRates>> parse_rates(std::string_view text, size_t hosts);
Result<View> parse_view(std::string_view text, size_t hosts);

// Returns the rates of hosts with so many NICs each, of which the first ones have lost these shares
// of their bandwidth, in percent: "25,12.5". Host h loses whole NICs from number h on, and a part
// of the next one.
Result<std::vector<HostRates>> parse_losses(std::string_view text, size_t hosts, uint32_t nics);

}  // namespace r2ccl

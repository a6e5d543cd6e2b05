#include "plan/text/view_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "plan/text/quoted.h"

namespace r2ccl {
namespace {

Status wrong(const std::string& what) {
  return {Code::invalid_argument, what};
}

std::string to_text(const NicRate& rate) {
  return std::to_string(rate.send) +
         (rate.send == rate.receive ? "" : ":" + std::to_string(rate.receive));
}

// Returns the texts of `items` with `separator` between them; a run of equal ones is one text with
// its length and `times` before it.
template <typename T, typename Print>
std::string runs_of(const std::vector<T>& items, char separator, char times, const Print& print) {
  std::string text;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin + 1;
    while (end < items.size() && items[end] == items[begin]) ++end;
    if (begin > 0) text += separator;
    if (end - begin > 1) text += std::to_string(end - begin) + times;
    text += print(items[begin]);
    begin = end;
  }
  return text;
}

std::optional<uint32_t> number_of(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Takes the part of `rest` before the next separator.
std::string_view next_part(std::string_view& rest, char separator, bool& more) {
  const size_t end = rest.find(separator);
  more = end != std::string_view::npos;
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(more ? end + 1 : rest.size());
  return part;
}

// Takes "8x" from the front of `text`, if it stands there. Returns 1 where it does not.
Result<uint32_t> take_times(std::string_view& text, char times, size_t most) {
  const size_t end = text.find(times);
  if (end == std::string_view::npos) return 1u;
  const auto number = number_of(text.substr(0, end));
  if (!number || *number < 1 || *number > most) {
    return wrong(quoted(text.substr(0, end)) + " before '" + times + "' is no number from 1 to " +
                 std::to_string(most));
  }
  text.remove_prefix(end + 1);
  return *number;
}

}  // namespace

Result<NicRate> parse_rate(std::string_view text) {
  const size_t colon = text.find(':');
  const auto send = number_of(text.substr(0, colon));
  const auto receive = colon == std::string_view::npos ? send : number_of(text.substr(colon + 1));
  if (!send || !receive) {
    return wrong((text.empty() ? "a rate is missing" : quoted(text) + " is no rate") +
                 "; write 1/1000 of a NIC, as 500, or SEND:RECEIVE, as 1000:250");
  }
  return NicRate{*send, *receive};
}

namespace {

Result<HostRates> parse_host(std::string_view text) {
  HostRates rates;
  for (bool more = true; more;) {
    std::string_view word = next_part(text, ',', more);
    const Result<uint32_t> times = take_times(word, 'x', limits::kNicsMax);
    R2CCL_RETURN_IF_ERROR(times.status());
    const Result<NicRate> rate = parse_rate(word);
    R2CCL_RETURN_IF_ERROR(rate.status());
    if (times.value() > limits::kNicsMax - rates.size()) {
      return wrong("a host has more than " + std::to_string(limits::kNicsMax) + " NICs");
    }
    rates.insert(rates.end(), times.value(), rate.value());
  }
  return rates;
}

}  // namespace

std::string to_text(const View& view) {
  if (view.empty()) return "";
  return runs_of(view.hosts(), '/', '*', [](const HostRates& host) {
    return runs_of(host, ',', 'x', [](const NicRate& rate) { return to_text(rate); });
  });
}

Result<std::vector<HostRates>> parse_rates(std::string_view text, size_t hosts) {
  std::vector<HostRates> rates;
  for (bool more = true; more;) {
    std::string_view word = next_part(text, '/', more);
    const Result<uint32_t> times = take_times(word, '*', hosts);
    R2CCL_RETURN_IF_ERROR(times.status());
    const Result<HostRates> host = parse_host(word);
    R2CCL_RETURN_IF_ERROR(host.status());
    if (times.value() > hosts - rates.size()) {
      return wrong("it has more than " + std::to_string(hosts) + " hosts");
    }
    rates.insert(rates.end(), times.value(), host.value());
  }
  if (rates.size() < hosts) {
    return wrong("it has " + std::to_string(rates.size()) + " of " + std::to_string(hosts) +
                 " hosts");
  }
  return rates;
}

Result<View> parse_view(std::string_view text, size_t hosts) {
  Result<std::vector<HostRates>> rates = parse_rates(text, hosts);
  R2CCL_RETURN_IF_ERROR(rates.status());
  return View::of(std::move(rates).value());
}

Result<std::vector<HostRates>> parse_losses(std::string_view text, size_t hosts, uint32_t nics) {
  std::vector<HostRates> rates(hosts, HostRates(nics));
  size_t host = 0;
  for (bool more = true; more; ++host) {
    const std::string_view word = next_part(text, ',', more);
    double percent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), percent);
    const bool fits =
        error == std::errc() && end == word.data() + word.size() && percent >= 0 && percent < 100;
    if (!fits) return wrong(quoted(word) + " is no percentage from 0 to below 100");
    if (host == hosts) {
      return wrong("there are " + std::to_string(hosts) + " hosts; name at most one loss for each");
    }
    auto left = static_cast<uint32_t>(std::lround(percent / 100 * nics * kWholeNic));
    if (left == nics * kWholeNic) {
      return wrong(quoted(word) + " leaves less than 1/1000 of a NIC, and every host needs some");
    }
    for (size_t i = host; left > 0; ++i) {
      const uint32_t lost = std::min(left, kWholeNic);
      rates[host][i % nics] = {kWholeNic - lost, kWholeNic - lost};
      left -= lost;
    }
  }
  return rates;
}

}  // namespace r2ccl

#include "runtime/bootstrap/meeting_place.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace r2ccl {
namespace {

Endpoint any_address(AddressFamily family, uint16_t port) {
  Endpoint endpoint;
  endpoint.address.family = family;
  endpoint.port = port;
  return endpoint;
}

Endpoint own_loopback(AddressFamily family, uint16_t port) {
  Endpoint endpoint = any_address(family, port);
  if (family == AddressFamily::ipv4) {
    endpoint.address.bytes = {127, 0, 0, 1};
  } else {
    endpoint.address.bytes.back() = 1;
  }
  return endpoint;
}

bool is_same(const Address& a, const Address& b) {
  return a.family == b.family && a.bytes == b.bytes;
}

bool is_on_a_nic(const Address& address, std::span<const Nic> nics) {
  return std::ranges::any_of(nics, [&](const Nic& nic) {
    return std::ranges::any_of(nic.addresses,
                               [&](const Address& own) { return is_same(own, address); });
  });
}

bool has_family(std::span<const Nic> nics, AddressFamily family) {
  return std::ranges::any_of(nics, [&](const Nic& nic) {
    return std::ranges::any_of(nic.addresses,
                               [&](const Address& own) { return own.family == family; });
  });
}

}  // namespace

bool is_loopback_name(const std::string& host) {
  if (const auto address = parse_address(host)) return is_loopback(*address);
  std::string name = host;
  std::ranges::transform(name, name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  if (name.ends_with('.')) name.pop_back();
  return name == "localhost" || name.ends_with(".localhost") || name.starts_with("localhost.") ||
         name == "ip6-localhost" || name == "ip6-loopback";
}

MeetingPlace plan_meeting(const HostPort& place, std::span<const Endpoint> found,
                          std::span<const Nic> nics, AddressFamily family) {
  MeetingPlace meeting;
  const std::optional<Address> address = parse_address(place.host);
  if (is_loopback_name(place.host) && !found.empty()) {
    meeting.listen.assign(found.begin(), found.end());
    meeting.dial = meeting.listen;
    meeting.is_loopback = true;
    meeting.note = "rank 0 listens on its loopback only, because the ranks meet at " + place.host +
                   ": ranks of other hosts need a name or an address of its host that they reach";
    return meeting;
  }
  if (address && (is_link_local(*address) || is_on_a_nic(*address, nics)) && !found.empty()) {
    meeting.listen.assign(found.begin(), found.end());
    meeting.dial = meeting.listen;
    return meeting;
  }
  for (const AddressFamily each : {AddressFamily::ipv4, AddressFamily::ipv6}) {
    const bool wanted = family == AddressFamily::none || family == each;
    if (!wanted || !has_family(nics, each)) continue;
    meeting.listen.push_back(any_address(each, place.port));
    meeting.dial.push_back(own_loopback(each, place.port));
  }
  if (found.empty()) {
    meeting.note = "rank 0's host cannot resolve the host name \"" + place.host + "\" either";
  } else if (address) {
    meeting.note = place.host +
                   " is on no interface of rank 0's host, so a proxy or a translation "
                   "of addresses must lead to it";
  }
  // The addresses of the place tell which interface the control channel should use.
  meeting.dial.insert(meeting.dial.end(), found.begin(), found.end());
  return meeting;
}

std::vector<Endpoint> published_endpoints(const MeetingPlace& meeting,
                                          std::span<const Endpoint> found,
                                          std::span<const Endpoint> of_nics, size_t count_max) {
  std::vector<Endpoint> out;
  if (meeting.is_loopback) {
    out = meeting.listen;
  } else {
    std::ranges::copy_if(found, std::back_inserter(out),
                         [](const Endpoint& each) { return !is_loopback(each.address); });
    for (Endpoint each : of_nics) {
      each.port = meeting.listen.empty() ? each.port : meeting.listen.front().port;
      const bool is_known = std::ranges::any_of(
          out, [&](const Endpoint& other) { return is_same(other.address, each.address); });
      const bool is_heard = std::ranges::any_of(meeting.listen, [&](const Endpoint& listen) {
        return listen.address.family == each.address.family &&
               (listen.address.bytes == decltype(listen.address.bytes){} ||
                listen.address.bytes == each.address.bytes);
      });
      if (is_heard && !is_known) out.push_back(each);
    }
  }
  if (out.size() > count_max) out.resize(count_max);
  return out;
}

}  // namespace r2ccl

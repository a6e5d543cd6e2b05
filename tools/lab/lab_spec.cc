#include "tools/lab/lab_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/common/parse.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

constexpr int kHostsMax = 200;  // the last octet of an address
constexpr int kNicsMax = 64;    // the third octet, below the management network's
constexpr int kMgmtSubnet = 100;
constexpr size_t kLabNameBytesMax = 32;

int64_t to_bps(double mbit) {
  return std::llround(mbit * 1e6);
}

Status bad(const std::string& message) {
  return {Code::invalid_argument, message};
}

std::optional<int> numbered(const std::string& word, const std::string& prefix) {
  if (word.rfind(prefix, 0) != 0) return std::nullopt;
  return parse_int(word.substr(prefix.size()));
}

// Parses "h1:nic2=25" into a port and a number.
std::optional<std::pair<LabPort, double>> parse_override(const std::string& item) {
  size_t colon = item.find(':'), equals = item.find('=');
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return {};
  std::optional<int> host = numbered(item.substr(0, colon), "h");
  std::optional<int> nic = numbered(item.substr(colon + 1, equals - colon - 1), "nic");
  std::optional<double> value = parse_number(item.substr(equals + 1));
  if (!host || !nic || !value) return {};
  return std::pair{LabPort{*host, *nic}, *value};
}

// Applies a list of per-NIC values and single overrides with `set(nic, value)`.
template <typename Set>
Status apply_list(const std::vector<std::string>& items, const char* option, LabSpec* spec,
                  Set set) {
  size_t index = 0;
  for (const std::string& item : items) {
    if (std::optional<double> value = parse_number(item)) {
      for (auto& nics : spec->hosts) {
        if (index < nics.size()) set(&nics[index], *value);
      }
      ++index;
      continue;
    }
    auto entry = parse_override(item);
    if (!entry)
      return bad(std::string(option) + ": '" + item + "' is neither a number nor hI:nicK=N");
    auto [port, value] = *entry;
    if (port.host < 0 || port.host >= spec->host_count() || port.nic < 0 ||
        static_cast<size_t>(port.nic) >= spec->hosts[static_cast<size_t>(port.host)].size()) {
      return bad(std::string(option) + ": '" + item + "' names a NIC that the lab does not have");
    }
    set(&spec->hosts[static_cast<size_t>(port.host)][static_cast<size_t>(port.nic)], value);
  }
  return Status::ok_status();
}

Status check_shape(const LabShape& shape) {
  R2CCL_RETURN_IF_ERROR(check_lab_name(shape.name));
  if (shape.hosts < 1 || shape.hosts > kHostsMax) {
    return bad("a lab has 1 to " + std::to_string(kHostsMax) + " hosts");
  }
  if (shape.rate_mbit < 0 || shape.mgmt_mbit < 0) return bad("a rate cannot be negative");
  if (shape.queue_ms < 1) return bad("the shaper's queue must be at least 1 ms");
  if (!shape.nics_per_host.empty() &&
      shape.nics_per_host.size() != static_cast<size_t>(shape.hosts)) {
    return bad("--nics needs one number for each of the " + std::to_string(shape.hosts) + " hosts");
  }
  return Status::ok_status();
}

}  // namespace

Status check_lab_name(const std::string& name) {
  auto allowed = [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '-'); };
  // Programs would take a name that begins with a dash for an option.
  if (name.empty() || name.size() > kLabNameBytesMax || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), allowed)) {
    return bad("'" + printable(name) + "' cannot be a lab's name: use 1 to " +
               std::to_string(kLabNameBytesMax) +
               " letters, digits and dashes, and no dash at the start (--name, R2CCL_LAB)");
  }
  return Status::ok_status();
}

int LabSpec::rail_count() const {
  size_t most = 0;
  for (const auto& nics : hosts) most = std::max(most, nics.size());
  return static_cast<int>(most);
}

Result<LabSpec> make_lab_spec(const LabShape& shape) {
  R2CCL_RETURN_IF_ERROR(check_shape(shape));
  LabSpec spec;
  spec.name = shape.name;
  spec.mgmt = {to_bps(shape.mgmt_mbit), shape.mtu};
  spec.ipv6 = shape.ipv6;
  spec.congestion = shape.congestion;
  spec.burst_bytes = shape.burst_bytes;
  spec.queue_ms = shape.queue_ms;
  spec.single_packets = shape.single_packets;
  for (size_t i = 0; i < static_cast<size_t>(shape.hosts); ++i) {
    int nics = shape.nics;
    if (!shape.nics_per_host.empty()) nics = parse_int(shape.nics_per_host[i]).value_or(-1);
    if (nics < 1 || nics > kNicsMax) {
      return bad("a host has 1 to " + std::to_string(kNicsMax) + " NICs");
    }
    spec.hosts.emplace_back(static_cast<size_t>(nics), LabNic{to_bps(shape.rate_mbit), shape.mtu});
  }
  R2CCL_RETURN_IF_ERROR(apply_list(shape.rates, "--rates", &spec,
                                   [](LabNic* nic, double mbit) { nic->rate_bps = to_bps(mbit); }));
  R2CCL_RETURN_IF_ERROR(apply_list(shape.mtus, "--mtus", &spec, [](LabNic* nic, double mtu) {
    nic->mtu = static_cast<int>(mtu);
  }));
  int mtu_min = spec.ipv6 ? 1280 : 576;
  for (const auto& nics : spec.hosts) {
    for (const LabNic& nic : nics) {
      if (nic.rate_bps < 0) return bad("a rate cannot be negative");
      if (nic.mtu < mtu_min || nic.mtu > 65535) {
        return bad("an MTU is " + std::to_string(mtu_min) + " to 65535 bytes");
      }
    }
  }
  return spec;
}

const LabNic& nic_of(const LabSpec& spec, LabPort port) {
  if (port.nic == LabPort::kMgmt) return spec.mgmt;
  return spec.hosts[static_cast<size_t>(port.host)][static_cast<size_t>(port.nic)];
}

std::string device_name(LabPort port) {
  return port.nic == LabPort::kMgmt ? "mgmt" : "nic" + std::to_string(port.nic);
}

std::string port_name(LabPort port) {
  return "h" + std::to_string(port.host) + "n" +
         (port.nic == LabPort::kMgmt ? "m" : std::to_string(port.nic));
}

std::string rail_name(LabPort port) {
  return "rail" + (port.nic == LabPort::kMgmt ? std::string("m") : std::to_string(port.nic));
}

std::string address_of(const LabSpec& spec, LabPort port) {
  bool mgmt = port.nic == LabPort::kMgmt;
  char text[64];
  if (spec.ipv6) {
    // 0x100, so that the management network reads "100" in both families.
    std::snprintf(text, sizeof text, "fd77:0:0:%x::%x",
                  static_cast<unsigned>(mgmt ? 0x100 : port.nic),
                  static_cast<unsigned>(port.host + 1));
  } else {
    std::snprintf(text, sizeof text, "10.77.%d.%d", mgmt ? kMgmtSubnet : port.nic, port.host + 1);
  }
  return text;
}

std::string prefix_of(const LabSpec& spec, LabPort port) {
  return address_of(spec, port) + (spec.ipv6 ? "/64" : "/24");
}

std::string mac_of(LabPort port) {
  char text[32];
  std::snprintf(text, sizeof text, "02:77:00:00:%02x:%02x",
                static_cast<unsigned>(port.nic == LabPort::kMgmt ? kMgmtSubnet : port.nic),
                static_cast<unsigned>(port.host));
  return text;
}

std::optional<int> parse_host(const LabSpec& spec, const std::string& word) {
  std::optional<int> host = word.rfind('h', 0) == 0 ? numbered(word, "h") : parse_int(word);
  if (!host || *host < 0 || *host >= spec.host_count()) return std::nullopt;
  return host;
}

LabTarget target_of(LabPort port) {
  return {{port}, false, "h" + std::to_string(port.host) + " " + device_name(port)};
}

namespace {

Result<LabTarget> parse_host_target(const LabSpec& spec, const std::string& host_word,
                                    const std::string& nic_word) {
  std::optional<int> host = parse_host(spec, host_word);
  if (!host) {
    return bad("'" + host_word + "': the lab has the hosts h0 to h" +
               std::to_string(spec.host_count() - 1));
  }
  if (nic_word == "mgmt") return target_of({*host, LabPort::kMgmt});
  std::optional<int> nic = numbered(nic_word, "nic");
  size_t nics = spec.hosts[static_cast<size_t>(*host)].size();
  if (!nic || *nic < 0 || static_cast<size_t>(*nic) >= nics) {
    return bad("'" + nic_word + "': " + host_word + " has the interfaces nic0 to nic" +
               std::to_string(nics - 1) + " and mgmt");
  }
  return target_of({*host, *nic});
}

Result<LabTarget> parse_rail_target(const LabSpec& spec, const std::string& word) {
  std::optional<int> rail = word == "mgmt" ? LabPort::kMgmt : numbered(word, "rail");
  if (!rail || (word != "mgmt" && (*rail < 0 || *rail >= spec.rail_count()))) {
    return bad("'" + word + "': say hI nicK, hI mgmt, railK (rail0 to rail" +
               std::to_string(spec.rail_count() - 1) + ") or mgmt");
  }
  LabTarget target{{}, true, word};
  for (int host = 0; host < spec.host_count(); ++host) {
    bool has = *rail == LabPort::kMgmt ||
               static_cast<size_t>(*rail) < spec.hosts[static_cast<size_t>(host)].size();
    if (has) target.ports.push_back({host, *rail});
  }
  return target;
}

}  // namespace

Result<LabTarget> parse_target(const LabSpec& spec, std::vector<std::string>* words) {
  if (words->empty()) return bad("name a target: hI nicK, hI mgmt, railK or mgmt");
  std::string first = words->front();
  words->erase(words->begin());
  if (first[0] != 'h') return parse_rail_target(spec, first);
  if (size_t colon = first.find(':'); colon != std::string::npos) {
    return parse_host_target(spec, first.substr(0, colon), first.substr(colon + 1));
  }
  if (words->empty()) return bad(first + " needs an interface: nicK or mgmt");
  std::string second = words->front();
  words->erase(words->begin());
  return parse_host_target(spec, first, second);
}

namespace {

struct KindName {
  FaultKind kind;
  const char* name;
  const char* amount;  // the meaning of its argument; null: it takes none
};
constexpr KindName kKinds[] = {
    {FaultKind::down, "down", nullptr},
    {FaultKind::pull, "pull", nullptr},
    {FaultKind::hole, "hole", nullptr},
    {FaultKind::hole_tx, "hole-tx", nullptr},
    {FaultKind::hole_rx, "hole-rx", nullptr},
    {FaultKind::slow, "slow", "Mbit/s above 0, or of its rate above 0 % and up to 100 %: 10%"},
    {FaultKind::lose, "lose", "a percentage above 0 and up to 100"},
};

}  // namespace

Result<LabFault> parse_fault(const std::vector<std::string>& words) {
  for (const KindName& entry : kKinds) {
    if (words.empty() || words[0] != entry.name) continue;
    LabFault fault{entry.kind, 0, false};
    if (words.size() != (entry.amount == nullptr ? 1u : 2u)) {
      return bad(words[0] + (entry.amount == nullptr ? std::string(" takes no number")
                                                     : std::string(" needs ") + entry.amount));
    }
    if (entry.amount == nullptr) return fault;
    std::string text = words[1];
    if (!text.empty() && text.back() == '%') {
      text.pop_back();
      fault.relative = fault.kind == FaultKind::slow;
    }
    std::optional<double> amount = parse_number(text);
    bool percent = fault.relative || fault.kind == FaultKind::lose;
    if (!amount || *amount <= 0 || (percent && *amount > 100)) {
      return bad("'" + words[1] + "': " + words[0] + " needs " + entry.amount);
    }
    fault.amount = *amount;
    return fault;
  }
  return bad((words.empty() ? std::string("no fault named") : "'" + words[0] + "'") +
             ": faults are down, pull, hole, hole-tx, hole-rx, slow RATE, lose PERCENT");
}

std::string describe(const LabFault& fault) {
  for (const KindName& entry : kKinds) {
    if (entry.kind != fault.kind) continue;
    if (entry.amount == nullptr) return entry.name;
    char number[32];
    std::snprintf(number, sizeof number, " %g", fault.amount);
    bool percent = fault.relative || fault.kind == FaultKind::lose;
    return entry.name + std::string(number) + (percent ? " %" : " Mbit/s");
  }
  return "?";
}

std::string effect_of(const LabFault& fault) {
  char number[32];
  std::snprintf(number, sizeof number, "%g", fault.amount);
  switch (fault.kind) {
    case FaultKind::down:
      return "is down";
    case FaultKind::pull:
      return "is unplugged";
    case FaultKind::hole:
      return "passes nothing on, either way";
    case FaultKind::hole_tx:
      return "sends nothing";
    case FaultKind::hole_rx:
      return "receives nothing";
    case FaultKind::slow:
      return "is slowed to " + std::string(number) +
             (fault.relative ? " % of its rate" : " Mbit/s");
    case FaultKind::lose:
      return "loses " + std::string(number) + " % of its packets";
  }
  return "?";
}

std::string to_json(const LabSpec& spec) {
  using nlohmann::json;
  auto nic_json = [](const LabNic& nic) {
    return json{{"rate_bps", nic.rate_bps}, {"mtu", nic.mtu}};
  };
  json hosts = json::array();
  for (const auto& nics : spec.hosts) {
    json list = json::array();
    for (const LabNic& nic : nics) list.push_back(nic_json(nic));
    hosts.push_back({{"nics", list}});
  }
  return json{{"name", spec.name},
              {"hosts", hosts},
              {"mgmt", nic_json(spec.mgmt)},
              {"ipv6", spec.ipv6},
              {"congestion", spec.congestion},
              {"burst_bytes", spec.burst_bytes},
              {"queue_ms", spec.queue_ms},
              {"single_packets", spec.single_packets}}
      .dump(1);
}

Result<LabSpec> lab_spec_from_json(const std::string& text) {
  using nlohmann::json;
  json doc = json::parse(text, nullptr, false);
  // This program writes the file; other content means a damaged state directory.
  try {
    LabSpec spec;
    auto nic = [](const json& j) {
      return LabNic{j.at("rate_bps").get<int64_t>(), j.at("mtu").get<int>()};
    };
    spec.name = doc.at("name").get<std::string>();
    for (const json& host : doc.at("hosts")) {
      std::vector<LabNic> nics;
      for (const json& entry : host.at("nics")) nics.push_back(nic(entry));
      spec.hosts.push_back(std::move(nics));
    }
    spec.mgmt = nic(doc.at("mgmt"));
    spec.ipv6 = doc.at("ipv6").get<bool>();
    spec.congestion = doc.at("congestion").get<std::string>();
    spec.burst_bytes = doc.at("burst_bytes").get<int64_t>();
    spec.queue_ms = doc.at("queue_ms").get<int>();
    spec.single_packets = doc.at("single_packets").get<bool>();
    return spec;
  } catch (const json::exception& error) {
    return Status(Code::invalid_argument, std::string("not a lab's state: ") + error.what());
  }
}

}  // namespace r2ccl::tools

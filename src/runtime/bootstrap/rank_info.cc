#include "runtime/bootstrap/rank_info.h"

#include <algorithm>

#include "base/limits.h"
#include "base/printable.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/address_codec.h"

namespace r2ccl {
namespace {

// The fields up to the library's version have the same form in every version of this number, so
// that each library can name the other one.
constexpr uint8_t kRankInfoVersion = 3;
constexpr const char* kOneVersion = ": install one version of r2ccl on all hosts";

class RankInfoWriter {
 public:
  explicit RankInfoWriter(std::vector<std::byte>& bytes) : out_(bytes) {}

  void put_text(const std::string& text, size_t bytes_max, const char* what) {
    bound(text.size(), bytes_max, what);
    // An interface or a host may have any name, and the reader refuses unprintable characters.
    const std::string told = printable_text(text, bytes_max);
    out_.put(static_cast<uint8_t>(told.size()));
    out_.put_bytes(std::as_bytes(std::span(told)));
  }
  void put_count(size_t count, size_t count_max, const char* what) {
    bound(count, count_max, what);
    out_.put(static_cast<uint8_t>(count));
  }
  ByteWriter& raw() { return out_; }
  const Status& status() const { return status_; }

 private:
  void bound(size_t size, size_t size_max, const char* what) {
    if (size > size_max && status_.ok()) {
      status_ = Status(Code::invalid_argument, std::string(what) + ": " + std::to_string(size) +
                                                   " is more than " + std::to_string(size_max));
    }
  }

  ByteWriter out_;
  Status status_;
};

class RankInfoReader {
 public:
  explicit RankInfoReader(std::span<const std::byte> bytes) : in_(bytes) {}

  std::string get_text(size_t bytes_max, const char* what) {
    const size_t size = get_count(bytes_max, what);
    const std::span<const std::byte> bytes = in_.get_bytes(size);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_printable(text)) fail(what);
    return printable_text(text, bytes_max);
  }
  size_t get_count(size_t count_max, const char* what) {
    const size_t count = in_.get<uint8_t>();
    if (count <= count_max) return count;
    fail(what);
    return 0;
  }
  Address get_address_of(const char* what) {
    Address address;
    if (!get_address(in_, address)) fail(what);
    return address;
  }
  Rank get_rank() { return Rank(static_cast<int32_t>(in_.get<uint32_t>())); }
  ByteReader& raw() { return in_; }
  Status status() const {
    if (in_.bad()) return bad("it is cut short");
    if (wrong_ != nullptr) return bad(wrong_);
    if (in_.remaining() != 0) return bad("bytes are left over");
    return {};
  }
  bool going() const { return wrong_ == nullptr && !in_.bad(); }

 private:
  static Status bad(const std::string& what) {
    return {Code::remote, "malformed rank info: " + what};
  }
  void fail(const char* what) {
    if (wrong_ == nullptr) wrong_ = what;
  }

  ByteReader in_;
  const char* wrong_ = nullptr;
};

void put_nic(RankInfoWriter& out, const NicInfo& nic) {
  out.put_text(nic.name, kNicNameBytesMax, "length of a NIC's name");
  out.raw().put_bytes(std::as_bytes(std::span(nic.hardware)));
  out.raw().put(nic.mtu);
  out.raw().put(nic.speed_mbps);
  out.raw().put(nic.port);
  out.put_count(nic.addresses.size(), kNicAddressesMax, "addresses of one NIC");
  for (const Address& address : nic.addresses) put_address(out.raw(), address);
}

NicInfo get_nic(RankInfoReader& in) {
  NicInfo nic;
  nic.name = in.get_text(kNicNameBytesMax, "a NIC's name");
  std::ranges::transform(in.raw().get_bytes(nic.hardware.size()), nic.hardware.begin(),
                         [](std::byte byte) { return std::to_integer<uint8_t>(byte); });
  nic.mtu = in.raw().get<uint32_t>();
  nic.speed_mbps = in.raw().get<uint64_t>();
  nic.port = in.raw().get<uint16_t>();
  const size_t address_count = in.get_count(kNicAddressesMax, "addresses of one NIC");
  for (size_t i = 0; i < address_count && in.going(); ++i) {
    nic.addresses.push_back(in.get_address_of("an address of a NIC"));
  }
  return nic;
}

Endpoint get_shm(ByteReader& in) {
  Endpoint shm;
  shm.port = in.get<uint16_t>();
  const auto name = in.get_bytes(shm.address.bytes.size());
  if (shm.port == 0 || in.bad()) return {};
  shm.address.family = AddressFamily::local;
  std::ranges::transform(name, shm.address.bytes.begin(),
                         [](std::byte byte) { return std::to_integer<uint8_t>(byte); });
  return shm;
}

void put_known_job(RankInfoWriter& out, const KnownJob& known) {
  out.raw().put_bytes(known.run);
  out.raw().put(static_cast<uint32_t>(known.peer.value()));
  out.put_count(known.parted.size(), kKnownJobPartedMax, "parted peers of a known job");
  for (const Rank rank : known.parted) out.raw().put(static_cast<uint32_t>(rank.value()));
  out.raw().put_bytes(known.proof);
}

KnownJob get_known_job(RankInfoReader& in) {
  KnownJob known;
  std::ranges::copy(in.raw().get_bytes(known.run.size()), known.run.begin());
  known.peer = in.get_rank();
  const size_t parted_count = in.get_count(kKnownJobPartedMax, "parted peers of a known job");
  for (size_t i = 0; i < parted_count && in.going(); ++i) known.parted.push_back(in.get_rank());
  std::ranges::copy(in.raw().get_bytes(known.proof.size()), known.proof.begin());
  return known;
}

}  // namespace

Result<std::vector<std::byte>> encode(const RankInfo& info) {
  std::vector<std::byte> bytes;
  RankInfoWriter out(bytes);
  out.raw().put(kRankInfoVersion);
  out.raw().put(static_cast<uint32_t>(info.rank.value()));
  out.put_text(info.host_name, kHostNameBytesMax, "length of the host's name");
  out.raw().put_bytes(info.host);
  out.raw().put(info.pid);
  out.raw().put(info.library_version);
  out.put_count(info.settings.size(), kSettingsMax, "settings");
  for (const Setting& setting : info.settings) {
    out.put_text(setting.name, kSettingNameBytesMax, "length of a setting's name");
    out.put_text(setting.value, kSettingValueBytesMax, "length of a setting's value");
  }
  out.put_count(info.nics.size(), limits::kNicsMax, "NICs of this rank");
  for (const NicInfo& nic : info.nics) put_nic(out, nic);
  out.put_count(info.control.size(), kControlEndpointsMax, "control endpoints of this rank");
  for (const Endpoint& endpoint : info.control) {
    put_address(out.raw(), endpoint.address);
    out.raw().put(endpoint.port);
  }
  // Port 0 stands for no listener.
  out.raw().put(info.shm.port);
  out.raw().put_bytes(std::as_bytes(std::span(info.shm.address.bytes)));
  out.put_text(info.init_error, kInitErrorBytesMax, "length of the obstacle");
  out.put_count(info.known_jobs.size(), kKnownJobsMax, "known jobs of this rank");
  for (const KnownJob& known : info.known_jobs) put_known_job(out, known);
  if (!out.status().ok()) return out.status().with_context("cannot describe this rank");
  R2CCL_CHECK(bytes.size() <= kRankInfoBytesMax);
  return bytes;
}

Result<RankInfo> decode_rank_info(std::span<const std::byte> bytes) {
  if (bytes.size() > kRankInfoBytesMax) {
    return Status(Code::remote, "malformed rank info: it is too long");
  }
  RankInfoReader in(bytes);
  const uint8_t version = in.raw().get<uint8_t>();
  RankInfo info;
  info.rank = in.get_rank();
  info.host_name = in.get_text(kHostNameBytesMax, "the host's name");
  std::ranges::copy(in.raw().get_bytes(kHostIdBytes), info.host.begin());
  info.pid = in.raw().get<uint32_t>();
  info.library_version = in.raw().get<uint32_t>();
  if (!in.going()) return in.status();
  if (version != kRankInfoVersion) {
    return Status(Code::invalid_usage, describe(info) + " has r2ccl " +
                                           version_text(info.library_version) +
                                           ", which describes a rank in form " +
                                           std::to_string(version) + "; this library knows form " +
                                           std::to_string(kRankInfoVersion) + kOneVersion);
  }
  const size_t setting_count = in.get_count(kSettingsMax, "settings");
  for (size_t i = 0; i < setting_count && in.going(); ++i) {
    Setting setting;
    setting.name = in.get_text(kSettingNameBytesMax, "a setting's name");
    setting.value = in.get_text(kSettingValueBytesMax, "a setting's value");
    info.settings.push_back(std::move(setting));
  }
  const size_t nic_count = in.get_count(limits::kNicsMax, "NICs");
  for (size_t i = 0; i < nic_count && in.going(); ++i) info.nics.push_back(get_nic(in));
  const size_t control_count = in.get_count(kControlEndpointsMax, "control endpoints");
  for (size_t i = 0; i < control_count && in.going(); ++i) {
    Endpoint endpoint;
    endpoint.address = in.get_address_of("a control endpoint");
    endpoint.port = in.raw().get<uint16_t>();
    info.control.push_back(endpoint);
  }
  info.shm = get_shm(in.raw());
  info.init_error = in.get_text(kInitErrorBytesMax, "the obstacle");
  const size_t known_count = in.get_count(kKnownJobsMax, "known jobs");
  for (size_t i = 0; i < known_count && in.going(); ++i) {
    info.known_jobs.push_back(get_known_job(in));
  }
  if (Status status = in.status(); !status.ok()) return status;
  return info;
}

std::string version_text(uint32_t code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

std::string describe(const RankInfo& info) {
  return describe(info.rank, info);
}

std::string describe(Rank rank, const RankInfo& info) {
  return "rank " + std::to_string(rank.value()) + " (host " + info.host_name + ", pid " +
         std::to_string(info.pid) + ")";
}

NicInfo make_nic_info(const Nic& nic, uint16_t port) {
  NicInfo info;
  info.name = nic.name;
  info.hardware = nic.hardware;
  info.mtu = nic.mtu;
  info.speed_mbps = nic.speed_mbps;
  info.port = port;
  info.addresses = nic.addresses;
  // A host may have any number of virtual addresses, of which each has a subnet of its own.
  const auto is_real = [](const Address& address) {
    const bool single = address.prefix_bits == (address.family == AddressFamily::ipv4 ? 32 : 128);
    return !single && !is_link_local(address);
  };
  std::stable_partition(info.addresses.begin(), info.addresses.end(), is_real);
  if (info.addresses.size() > kNicAddressesMax) info.addresses.resize(kNicAddressesMax);
  // The scope stays on this host, as in the encoded form.
  for (Address& address : info.addresses) address.scope = 0;
  return info;
}

Status check_agreement(std::span<const RankInfo> rank_table) {
  for (const RankInfo& info : rank_table) {
    const RankInfo& first = rank_table.front();
    const auto differs = [&](const std::string& what, const std::string& a, const std::string& b) {
      return Status(Code::invalid_usage, what + " differs between ranks: " + describe(first) +
                                             " has " + (a.empty() ? "nothing" : a) + ", " +
                                             describe(info) + " has " +
                                             (b.empty() ? "nothing" : b));
    };
    if (info.library_version != first.library_version) {
      return differs("the version of r2ccl", version_text(first.library_version),
                     version_text(info.library_version) + kOneVersion);
    }
    const size_t count = std::max(info.settings.size(), first.settings.size());
    for (size_t i = 0; i < count; ++i) {
      const Setting mine = i < first.settings.size() ? first.settings[i] : Setting();
      const Setting theirs = i < info.settings.size() ? info.settings[i] : Setting();
      if (mine.name != theirs.name) return differs("the list of settings", mine.name, theirs.name);
      if (mine.value != theirs.value) return differs(mine.name, mine.value, theirs.value);
    }
  }
  return {};
}

}  // namespace r2ccl

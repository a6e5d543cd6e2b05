// The description that each rank sends to all others at start, and its codec. The bytes come from
// another process, so decoding is bounded and refuses any value that an honest rank cannot send.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "runtime/bootstrap/known_job.h"
#include "transport/endpoint.h"
#include "transport/transport.h"

namespace r2ccl {

inline constexpr size_t kRankInfoBytesMax = 64 * 1024;
inline constexpr size_t kHostIdBytes = 16;

using HostId = std::array<std::byte, kHostIdBytes>;

// A setting that all ranks must share, as text. Ranks compare it for equality only.
struct Setting {
  std::string name;
  std::string value;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// One data NIC and the listener on it. Its index in RankInfo::nics is its NicId.
struct NicInfo {
  std::string name;
  std::array<uint8_t, 8> hardware{};
  uint32_t mtu = 0;
  uint64_t speed_mbps = 0;
  std::vector<Address> addresses;
  uint16_t port = 0;
  friend bool operator==(const NicInfo&, const NicInfo&) = default;
};

struct RankInfo {
  Rank rank;
  std::string host_name;
  HostId host{};  // equal only for ranks that share kernel, network namespace and /dev/shm
  uint32_t pid = 0;
  uint32_t library_version = 0;  // R2CCL_VERSION_CODE
  std::vector<Setting> settings;
  std::vector<NicInfo> nics;
  std::vector<Endpoint> control;  // the endpoints where the control channel listens
  Endpoint shm;                   // where it listens in shared memory; family none: nowhere
  std::string init_error;         // why this rank cannot take part, on one line; empty: it can
  std::vector<KnownJob> known_jobs;
  friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

// The encoder cuts each list to its bound. These bounds keep the encoded rank info below its
// maximum.
inline constexpr size_t kHostNameBytesMax = 255;
inline constexpr size_t kNicNameBytesMax = 31;
inline constexpr size_t kNicAddressesMax = 8;
inline constexpr size_t kControlEndpointsMax = 64;
inline constexpr size_t kSettingsMax = 64;
inline constexpr size_t kSettingNameBytesMax = 63;
inline constexpr size_t kSettingValueBytesMax = 127;
inline constexpr size_t kInitErrorBytesMax = 255;

// Fails when a field exceeds its bound.
Result<std::vector<std::byte>> encode(const RankInfo& info);
Result<RankInfo> decode_rank_info(std::span<const std::byte> bytes);

// Returns "0.1.0" from R2CCL_VERSION_CODE.
std::string version_text(uint32_t code);

// Returns "rank 3 (host node7, pid 4711)".
std::string describe(const RankInfo& info);
// The same where it has another number.
std::string describe(Rank rank, const RankInfo& info);

// Returns a NIC as this rank advertises it, with the port of the listener on it.
NicInfo make_nic_info(const Nic& nic, uint16_t port);

// Requires the rank info of each rank, in rank order. Fails when a setting or the library's version
// differs; the error names the setting and both ranks.
Status check_agreement(std::span<const RankInfo> rank_table);

}  // namespace r2ccl

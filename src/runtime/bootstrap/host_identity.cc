#include "runtime/bootstrap/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"

namespace r2ccl {
namespace {

HostId digest_of(const char* domain, std::span<const std::byte> parts) {
  const crypto::Hash digest = crypto::hash(domain, parts);
  HostId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

}  // namespace

Result<HostId> host_identity() {
  std::string boot_id;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id)) {
    return system_error("cannot read /proc/sys/kernel/random/boot_id", errno);
  }
  struct stat network;
  if (stat("/proc/self/ns/net", &network) != 0) return system_error("/proc/self/ns/net", errno);
  // Without /dev/shm there is nothing to share. Every rank then uses zero.
  struct stat shared {};
  if (stat("/dev/shm", &shared) != 0) shared = {};
  std::vector<std::byte> parts;
  ByteWriter out(parts);
  out.put_bytes(std::as_bytes(std::span(boot_id)));
  out.put(static_cast<uint64_t>(network.st_ino));
  out.put(static_cast<uint64_t>(network.st_dev));
  out.put(static_cast<uint64_t>(shared.st_dev));
  return digest_of("r2ccl host", parts);
}

HostId host_identity_named(const std::string& text) {
  return digest_of("r2ccl named host", std::as_bytes(std::span(text)));
}

std::string host_name() {
  char name[kHostNameBytesMax + 1] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "?";
  return name;
}

}  // namespace r2ccl

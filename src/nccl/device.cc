#include "nccl/device.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/limits.h"

namespace r2ccl::nccl {
namespace {

// As NCCL's own sockets have it for a NIC that names no speed.
constexpr int kSpeedUnknown = 10'000;

// The real path of a PCI function in /sys; empty: the NIC has none.
std::string pci_path_of(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::canonical(folder + "/device", error);
  return error ? std::string() : path.string();
}

std::string first_word_of(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// Returns the number, or 0 where there is none.
template <typename Number>
Number parse(const std::string& text, int base) {
  Number number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

// Virtual functions of a card have addresses of their own, and share a port with an id.
uint64_t guid_of(const Nic& nic, const std::string& folder) {
  constexpr size_t kDigits = 2 * sizeof(uint64_t);
  const std::string port = first_word_of(folder + "/phys_port_id");
  const auto id = parse<uint64_t>(port.substr(port.size() - std::min(port.size(), kDigits)), 16);
  if (id != 0) return id;
  uint64_t address = 0;
  for (const uint8_t byte : nic.hardware) address = address << 8 | byte;
  return address;
}

Device describe(const Nic& nic, const std::string& folder) {
  Device device;
  device.name = device.nic = nic.name;
  device.pci_path = pci_path_of(folder);
  device.guid = guid_of(nic, folder);
  device.port = parse<int>(first_word_of(folder + "/dev_port"), 10);
  device.speed_mbps = nic.speed_mbps > 0 ? static_cast<int>(nic.speed_mbps) : kSpeedUnknown;
  return device;
}

Device as_one(const std::vector<Device>& devices) {
  Device all = devices.front();
  all.name = "r2ccl";
  all.nic.clear();
  all.pci_path.clear();
  for (size_t i = 1; i < devices.size(); ++i) all.speed_mbps += devices[i].speed_mbps;
  return all;
}

}  // namespace

std::vector<Device> describe_devices(const std::vector<Nic>& nics, NcclDevices choice,
                                     const std::string& sys) {
  std::vector<Device> devices;
  for (const Nic& nic : nics) {
    if (!nic.usable || devices.size() == limits::kNicsMax) continue;
    devices.push_back(describe(nic, sys + "/" + nic.name));
  }
  if (choice == NcclDevices::one && devices.size() > 1) devices = {as_one(devices)};
  return devices;
}

}  // namespace r2ccl::nccl

// The demo on a machine that permits no namespaces.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "tools/common/fd.h"
#include "tools/demo/demo_stage.h"
#include "tools/lab/lab_run.h"

namespace r2ccl::tools {
namespace {

std::string address_of(LabPort port) {
  return "127.0." + std::to_string(port.nic + 1) + "." + std::to_string(port.host + 1);
}

// Returns a free port; rank 0 takes it in a moment.
Result<int> find_free_port() {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || bind(fd.get(), generic, length) != 0 ||
      getsockname(fd.get(), generic, &length) != 0) {
    return system_error("a port on 127.0.0.1", errno);
  }
  return static_cast<int>(ntohs(address.sin_port));
}

class LoopbackStage final : public DemoStage {
 public:
  LoopbackStage(const DemoOptions& options, std::string fault_file, int port)
      : hosts_(options.hosts),
        nics_(options.nics),
        rate_bytes_per_s_(options.rate_mbit * 1e6 / 8),
        fault_file_(std::move(fault_file)),
        port_(port) {}

  // Requires that no rank has started.
  Status write_fault_file() const {
    std::ofstream out(fault_file_ + ".new", std::ios::trunc);
    for (int host = 0; host < hosts_; ++host) {
      for (int nic = 0; nic < nics_; ++nic) {
        const std::string address = address_of({host, nic});
        const auto fault = faults_.find(address);
        Result<std::string> line = fault_file_line(
            address, rate_bytes_per_s_, fault == faults_.end() ? nullptr : &fault->second);
        if (!line.ok()) return line.status();
        out << line.value() << "\n";
      }
    }
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(fault_file_ + ".new", fault_file_, error);
    if (!out || error) return {Code::system, "cannot write " + fault_file_};
    return Status::ok_status();
  }

  int run_rank(int host, const std::function<int()>& body) const override {
    set_rank_environment({host, hosts_, 0, 1, "127.0.0.1", port_});
    std::string nics = "=";
    for (int nic = 0; nic < nics_; ++nic) {
      nics += (nic == 0 ? "lo@" : ",lo@") + address_of({host, nic});
    }
    setenv("R2CCL_SOCKET_IFNAME", nics.c_str(), 1);
    setenv("R2CCL_HOST_ID", ("h" + std::to_string(host)).c_str(), 1);
    setenv("R2CCL_FAULT_FILE", fault_file_.c_str(), 1);
    return body();
  }

  Status fault(const LabTarget& target, const LabFault& fault) override {
    for (LabPort port : target.ports) faults_[address_of(port)] = fault;
    return write_fault_file();
  }
  Status fix(const LabTarget& target) override {
    for (LabPort port : target.ports) faults_.erase(address_of(port));
    return write_fault_file();
  }

  // The kernel has one counter for all of loopback, so the ranks must report their own bytes.
  Result<SentBytes> sent_bytes(const DemoWatch& watch) const override {
    SentBytes sent = watch.sent_bytes();
    for (std::vector<uint64_t>& host : sent) host.resize(static_cast<size_t>(nics_));
    return sent;
  }

 private:
  const int hosts_;
  const int nics_;
  const double rate_bytes_per_s_;
  const std::string fault_file_;
  const int port_;
  std::map<std::string, LabFault> faults_;  // by address
};

}  // namespace

Result<std::string> fault_file_line(const std::string& address, double rate_bytes_per_s,
                                    const LabFault* fault) {
  std::string words;
  double rate = rate_bytes_per_s;
  if (fault != nullptr) {
    switch (fault->kind) {
      case FaultKind::down:
      case FaultKind::pull:
        words = " down";
        break;
      case FaultKind::hole:
        words = " hole";
        break;
      case FaultKind::hole_tx:
        words = " hole-tx";
        break;
      case FaultKind::hole_rx:
        words = " hole-rx";
        break;
      case FaultKind::slow:
        rate = fault->relative ? rate * fault->amount / 100 : fault->amount * 1e6 / 8;
        break;
      case FaultKind::lose:
        return Status(Code::invalid_argument, "loopback loses no packets");
    }
  }
  return address + words + " slow " + std::to_string(std::llround(rate));
}

Result<std::unique_ptr<DemoStage>> make_loopback_stage(const DemoOptions& options,
                                                       const std::string& fault_file) {
  Result<int> port = find_free_port();
  if (!port.ok()) return port.status();
  auto stage = std::make_unique<LoopbackStage>(options, fault_file, port.value());
  R2CCL_RETURN_IF_ERROR(stage->write_fault_file());
  return std::unique_ptr<DemoStage>(std::move(stage));
}

}  // namespace r2ccl::tools

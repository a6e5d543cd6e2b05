// The demo on a lab.
#include <signal.h>

#include <cstdlib>

#include "protocol/wire/key_schedule.h"
#include "tools/common/command.h"
#include "tools/demo/demo_stage.h"
#include "tools/lab/lab_run.h"

namespace r2ccl::tools {
namespace {

// Removes the lab however the demo ends.
class LabGuard {
 public:
  explicit LabGuard(std::string name) : name_(std::move(name)) {
    sigset_t interruptions;
    sigemptyset(&interruptions);
    for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&interruptions, signal_number);
    sigprocmask(SIG_BLOCK, &interruptions, nullptr);
  }
  LabGuard(const LabGuard&) = delete;
  LabGuard& operator=(const LabGuard&) = delete;
  ~LabGuard() {
    Status status = Lab::down(name_);
    if (!status.ok()) report_error("demo", status);
  }

 private:
  std::string name_;
};

class LabStage final : public DemoStage {
 public:
  LabStage(std::unique_ptr<LabGuard> guard, Lab lab)
      : guard_(std::move(guard)), lab_(std::move(lab)) {
    const LockedBytes secret = generate_secret();  // named, so that it outlives the loop
    for (const std::byte byte : secret.bytes()) secret_ += static_cast<char>(byte);
  }

  int run_rank(int host, const std::function<int()>& body) const override {
    RankPlace place{host, lab_.spec().host_count(), 0, 1, "h0", 29500};
    return run_rank_in_lab(lab_, place, [&] {
      setenv("R2CCL_SOCKET_IFNAME", "nic", 1);
      setenv("R2CCL_SECRET", secret_.c_str(), 1);
      return body();
    });
  }
  Status fault(const LabTarget& target, const LabFault& fault) override {
    return lab_.fault(target, fault);
  }
  Status fix(const LabTarget& target) override { return lab_.fix(target); }

  Result<SentBytes> sent_bytes(const DemoWatch&) const override {
    SentBytes sent;
    for (int host = 0; host < lab_.spec().host_count(); ++host) {
      Result<std::vector<NicBytes>> bytes = lab_.bytes(host);
      if (!bytes.ok()) return bytes.status();
      sent.emplace_back();
      for (size_t nic = 0; nic < lab_.spec().hosts[static_cast<size_t>(host)].size(); ++nic) {
        sent.back().push_back(bytes.value()[nic].tx);
      }
    }
    return sent;
  }

 private:
  std::unique_ptr<LabGuard> guard_;
  Lab lab_;
  std::string secret_;  // without a secret, the start's warning would break into the table
};

}  // namespace

Result<std::unique_ptr<DemoStage>> make_lab_stage(const DemoOptions& options) {
  LabShape shape;
  shape.name = options.lab_name;
  shape.hosts = options.hosts;
  shape.nics = options.nics;
  shape.rate_mbit = options.rate_mbit;
  Result<LabSpec> spec = make_lab_spec(shape);
  if (!spec.ok()) return spec.status();
  auto guard = std::make_unique<LabGuard>(options.lab_name);
  Result<Lab> lab = Lab::up(spec.value());
  if (!lab.ok()) return lab.status();
  return std::unique_ptr<DemoStage>(new LabStage(std::move(guard), std::move(lab.value())));
}

}  // namespace r2ccl::tools

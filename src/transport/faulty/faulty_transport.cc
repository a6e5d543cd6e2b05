#include "transport/faulty/faulty_transport.h"

#include <cerrno>

namespace r2ccl {
namespace {

std::string name_of(const Address& address) {
  return address.family == AddressFamily::none ? "" : to_string(address);
}

// A listener whose NIC may be faulty: while nothing arrives there, it accepts nothing.
class FaultyListener final : public Listener, public FaultyPollable {
 public:
  FaultyListener(FaultyContext& context, FaultTarget target, std::unique_ptr<Listener> inner)
      : context_(context),
        target_(std::move(target)),
        inner_(std::move(inner)),
        poll_id_(context.poller.enroll(this)) {}
  ~FaultyListener() override { context_.poller.withdraw(poll_id_); }

  std::unique_ptr<Connection> accept() override {
    accept_error_ = 0;
    if (deaf()) return nullptr;
    accept_error_ = context_.plan.next_operation();
    if (accept_error_ != 0) return nullptr;
    std::unique_ptr<Connection> connection = inner_->accept();
    accept_error_ = inner_->accept_error();
    if (connection == nullptr) return nullptr;
    FaultTarget target = target_;
    target.remote = name_of(connection->remote().address);
    return std::make_unique<FaultyConnection>(context_, std::move(target), std::move(connection));
  }
  int accept_error() const override { return accept_error_; }
  Endpoint local() const override { return inner_->local(); }
  int poll_id() const override { return poll_id_; }

  Readiness readiness(TimeNs, bool) override {
    Readiness out;
    if (!deaf()) out.inner_id = inner_->poll_id();
    return out;
  }
  bool pass_on_inner_events() const override { return !deaf(); }

 private:
  bool deaf() const {
    const NicFault fault = context_.plan.fault_of(target_);
    return fault.down || fault.hole_rx || fault.hole_tx;
  }

  FaultyContext& context_;
  FaultTarget target_;
  std::unique_ptr<Listener> inner_;
  int poll_id_;
  int accept_error_ = 0;
};

}  // namespace

FaultyTransport::FaultyTransport(Transport& inner, FaultPlan& plan, const Clock& clock)
    : inner_(inner),
      context_{.clock = clock,
               .plan = plan,
               .poller = FaultyPoller(inner.poller(), clock, plan),
               .departed = {}},
      nic_events_id_(context_.poller.enroll(this)),
      nic_version_(plan.version()) {}

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, FaultPlan& plan,
                                 const Clock& clock)
    : FaultyTransport(*inner, plan, clock) {
  owned_ = std::move(inner);
}

FaultyTransport::~FaultyTransport() {
  context_.poller.withdraw(nic_events_id_);
  for (const auto& connection : context_.departed) connection->flush();
}

Result<std::vector<Nic>> FaultyTransport::nics() {
  Result<std::vector<Nic>> nics = inner_.nics();
  if (!nics.ok()) return nics;
  for (Nic& nic : nics.value()) {
    bool down = context_.plan.fault_of({.device = nic.name, .local = "", .remote = ""}).down;
    for (const Address& address : nic.addresses) {
      const FaultTarget target{.device = "", .local = name_of(address), .remote = ""};
      // A device also carries addresses that stand for NICs of their own; those addresses do not
      // take it down.
      down = down || (nic.usable && context_.plan.fault_of(target).down);
    }
    if (!down) continue;
    nic.carrier = false;
    nic.usable = false;
    nic.reason = "not used: no carrier (by the fault plan)";
  }
  return nics;
}

bool FaultyTransport::drain_nic_events() {
  const uint64_t version = context_.plan.version();
  const bool plan_changed = version != nic_version_;
  nic_version_ = version;
  forget_departed();
  const bool told = inner_.drain_nic_events() && !context_.plan.fault_of({}).no_events;
  return told || plan_changed;
}

FaultyPollable::Readiness FaultyTransport::readiness(TimeNs, bool) {
  Readiness out;
  out.inner_id = inner_.nic_events_poll_id();
  out.readable = context_.plan.version() != nic_version_;
  return out;
}

void FaultyTransport::forget_departed() {
  std::erase_if(context_.departed, [now = context_.clock.now()](const auto& connection) {
    connection->move_held(now);
    return connection->is_over();
  });
}

Result<std::unique_ptr<Listener>> FaultyTransport::listen(const Endpoint& local,
                                                          const std::string& device) {
  if (const int error = context_.plan.next_operation(); error != 0) {
    return system_error("listen on " + to_string(local), error);
  }
  Result<std::unique_ptr<Listener>> inner = inner_.listen(local, device);
  if (!inner.ok()) return inner;
  FaultTarget target{.device = device, .local = name_of(local.address), .remote = ""};
  return std::unique_ptr<Listener>(
      new FaultyListener(context_, std::move(target), std::move(inner).value()));
}

Result<std::unique_ptr<Connection>> FaultyTransport::connect(const Endpoint& remote,
                                                             const ConnectOptions& options) {
  forget_departed();
  if (const int error = context_.plan.next_operation(); error != 0) {
    return system_error("connect to " + to_string(remote), error);
  }
  FaultTarget target{.device = options.device,
                     .local = name_of(options.source),
                     .remote = name_of(remote.address)};
  const NicFault fault = context_.plan.fault_of(target);
  if (fault.down || fault.hole_tx || fault.hole_rx) {
    const int error = fault.down ? ENETDOWN : 0;
    return std::unique_ptr<Connection>(
        new FaultyConnection(context_, std::move(target), remote, error));
  }
  Result<std::unique_ptr<Connection>> inner = inner_.connect(remote, options);
  if (!inner.ok()) return inner;
  return std::unique_ptr<Connection>(
      new FaultyConnection(context_, std::move(target), std::move(inner).value()));
}

}  // namespace r2ccl

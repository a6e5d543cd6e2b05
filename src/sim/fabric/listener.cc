#include "sim/fabric/listener.h"

#include <algorithm>
#include <cerrno>

#include "sim/fabric/host.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {

SimConnection::SimConnection(SimHost& process, Flow& flow, int side)
    : process_(process),
      flow_(flow),
      side_(side),
      was_established_(side == 1),
      poll_id_(process.sim_poller().attach(*this)) {
  flow_.attach(side_, process_, poll_id_);
}

SimConnection::~SimConnection() {
  process_.sim_poller().detach(poll_id_);
  flow_.close(side_);
}

ConnectState SimConnection::connect_state() {
  switch (flow_.state(side_)) {
    case SideState::absent:
    case SideState::connecting:
    case SideState::syn_received:
      return ConnectState::pending;
    case SideState::established:
    case SideState::orphaned:
      was_established_ = true;
      return ConnectState::established;
    case SideState::failed:
    case SideState::closed:
      break;
  }
  // A connection that was established stays so. read() and write() report its failure.
  return connect_error() == 0 ? ConnectState::established : ConnectState::failed;
}

int SimConnection::connect_error() const {
  if (was_established_ || flow_.state(side_) != SideState::failed) return 0;
  return flow_.error(side_);
}

// Returns the failure of this call; `blocked`: it goes on.
IoResult SimConnection::operation_error() {
  if (!process_.alive()) return {IoKind::failed, 0, EBADF};
  const int error = process_.next_operation_error();
  if (error == 0) return {};
  if (is_refusal(error)) return {IoKind::refused, 0, error};
  flow_.fail(side_, error);
  return {IoKind::failed, 0, error};
}

IoResult SimConnection::read(std::span<const iovec> slices) {
  const IoResult error = operation_error();
  return error.kind == IoKind::blocked ? flow_.read(side_, slices) : error;
}

IoResult SimConnection::receive(std::span<const iovec> slices) {
  const IoResult result = read(slices);
  flow_.post(side_, slices, result.bytes);
  return result;
}

IoResult SimConnection::write(std::span<const iovec> slices) {
  const IoResult error = operation_error();
  return error.kind == IoKind::blocked ? flow_.write(side_, slices) : error;
}

IoResult SimConnection::send(std::span<const iovec> slices) {
  const IoResult error = operation_error();
  return error.kind == IoKind::blocked ? flow_.send(side_, slices) : error;
}

SimListener::SimListener(SimHost& process, Network& network, const Endpoint& local,
                         std::string device)
    : process_(process),
      network_(network),
      local_(local),
      device_(std::move(device)),
      poll_id_(process.sim_poller().attach(*this)) {
  process_.machine().listeners.push_back(this);
}

SimListener::~SimListener() {
  shut();
  process_.sim_poller().detach(poll_id_);
}

void SimListener::shut() {
  std::erase(process_.machine().listeners, this);
  for (const uint64_t id : backlog_) {
    if (Flow* flow = network_.find(id)) flow->close(1);
  }
  backlog_.clear();
}

bool SimListener::serves(const Endpoint& endpoint, const std::string& device) const {
  if (endpoint.port != local_.port || (!device_.empty() && device_ != device)) return false;
  const bool any = local_.address.bytes == decltype(local_.address.bytes){};
  return any || local_.address.bytes == endpoint.address.bytes;
}

void SimListener::enqueue(uint64_t flow_id) {
  backlog_.push_back(flow_id);
  process_.sim_poller().touch(poll_id_);
}

std::unique_ptr<Connection> SimListener::accept() {
  accept_error_ = process_.next_operation_error();
  if (accept_error_ != 0) return nullptr;
  while (!backlog_.empty()) {
    Flow* flow = network_.find(backlog_.front());
    backlog_.pop_front();
    if (flow != nullptr) return std::make_unique<SimConnection>(process_, *flow, 1);
  }
  return nullptr;
}

}  // namespace r2ccl::sim

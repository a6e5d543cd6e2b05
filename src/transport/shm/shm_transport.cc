#include "transport/shm/shm_transport.h"

#include <cerrno>
#include <utility>

#include "transport/shm/shm_listener.h"
#include "transport/shm/shm_socket.h"

namespace r2ccl {
namespace {

// Makes the memory of a connection and hands it over. Returns 0 or an errno value.
int share(int socket, ShmSegment& segment) {
  const GuardedFd file = ShmSegment::make_file();
  if (!file.valid()) return errno;
  if (const int error = segment.map(file.get()); error != 0) return error;
  segment.introduce(ShmEnd::dialing);
  return send_shm_file(socket, file.get());
}

}  // namespace

ShmTransport::ShmTransport(std::unique_ptr<Transport> below, const Clock& clock, bool direct)
    : below_(std::move(below)), poller_(below_->poller(), clock, all_) {
  all_->in_place = direct;
  all_->fetches = direct;
}

Result<std::unique_ptr<Listener>> ShmTransport::listen(const Endpoint& local,
                                                       const std::string& device) {
  if (local.address.family != AddressFamily::local) return below_->listen(local, device);
  GuardedFd socket = open_shm_socket();
  if (!socket.valid()) return system_error("listen in shared memory: socket", errno);
  Endpoint bound = local;
  const int error = listen_at(socket.get(), bound);
  if (error != 0) return system_error("listen on " + to_string(bound), error);
  return std::unique_ptr<Listener>(new ShmListener(all_, std::move(socket), bound));
}

Result<std::unique_ptr<Connection>> ShmTransport::connect(const Endpoint& remote,
                                                          const ConnectOptions& options) {
  if (remote.address.family != AddressFamily::local) return below_->connect(remote, options);
  GuardedFd socket = open_shm_socket();
  if (!socket.valid()) return system_error("connect to " + to_string(remote) + ": socket", errno);
  int error = connect_to(socket.get(), remote);
  ShmSegment segment;
  if (error == 0) error = share(socket.get(), segment);
  std::unique_ptr<Connection> connection;
  if (error == 0) {
    connection =
        std::make_unique<ShmConnection>(all_, std::move(socket), remote, std::move(segment));
  } else {
    connection = std::make_unique<ShmConnection>(all_, std::move(socket), remote, error);
  }
  return connection;
}

}  // namespace r2ccl

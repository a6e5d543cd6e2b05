#include "transport/tcp/tcp_transport.h"

#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/tcp/socket_address.h"
#include "transport/tcp/socket_options.h"
#include "transport/tcp/tcp_connection.h"
#include "transport/tcp/tcp_listener.h"

namespace r2ccl {
namespace {

// More than the ranks of a large job that connect at once; a rank beyond it repeats its SYN.
constexpr int kBacklog = 1024;

GuardedFd open_socket(AddressFamily family) {
  return GuardedFd::from(
      [&] { return socket(socket_family(family), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

// Opens a socket that can serve all addresses of this host, and sets `any` to the address to bind
// it to: a socket of IPv6 serves both families, but some kernels have no IPv6.
GuardedFd open_any(Address& any) {
  any.family = AddressFamily::ipv6;
  GuardedFd socket = open_socket(any.family);
  if (socket.valid() || errno != EAFNOSUPPORT) return socket;
  any.family = AddressFamily::ipv4;
  return open_socket(any.family);
}

// Sets the scope of a link-local address. It means something on one link only, so the index of the
// device on this host replaces a scope that came from another host.
void set_scope(Address& address, const std::string& device) {
  if (address.family != AddressFamily::ipv6 || !is_link_local(address)) return;
  if (const uint32_t index = if_nametoindex(device.c_str()); index != 0) address.scope = index;
}

int start_connect(int socket, const Endpoint& remote) {
  const SocketAddress address = to_socket_address(remote);
  if (connect(socket, address.get(), address.length) == 0) return 0;
  // An interrupted connect goes on in the background like any other.
  return errno == EINPROGRESS || errno == EINTR ? 0 : errno;
}

Status start_listening(int socket, const Endpoint& local) {
  const SocketAddress address = to_socket_address(local);
  if (bind(socket, address.get(), address.length) != 0) return system_error("bind", errno);
  if (listen(socket, kBacklog) != 0) return system_error("listen", errno);
  return {};
}

Endpoint local_endpoint(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket, address.get(), &address.length) != 0) return {};
  return to_endpoint(address);
}

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::open(TcpOptions options) {
  Result<std::unique_ptr<TcpPoller>> poller = TcpPoller::open();
  if (!poller.ok()) return poller.status();
  Result<std::unique_ptr<NicWatch>> nic_watch = NicWatch::open();
  if (!nic_watch.ok()) return nic_watch.status();
  return std::unique_ptr<TcpTransport>(new TcpTransport(
      std::move(options), std::move(poller).value(), std::move(nic_watch).value()));
}

TcpTransport::TcpTransport(TcpOptions options, std::unique_ptr<TcpPoller> poller,
                           std::unique_ptr<NicWatch> nic_watch)
    : options_(std::move(options)), poller_(std::move(poller)), nic_watch_(std::move(nic_watch)) {}

Result<std::vector<Nic>> TcpTransport::nics() {
  Result<std::vector<Nic>> all = nic_watch_->nics();
  if (!all.ok()) return all.status();
  Result<std::vector<Nic>> chosen =
      choose_nics(all.value(), options_.nic_filter, routed_nics(all.value()));
  if (chosen.ok()) {
    filter_has_matched_ = true;
    return chosen;
  }
  if (!filter_has_matched_) return chosen.status();
  for (Nic& nic : all.value()) nic.reason = "not used: " + chosen.status().message();
  return all;
}

Address TcpTransport::source_on(const std::string& device, AddressFamily family) {
  const Result<std::vector<Nic>> nics = nic_watch_->nics();
  if (!nics.ok()) return {};
  for (const Nic& nic : nics.value()) {
    if (nic.name != device) continue;
    const auto found = std::ranges::find(nic.addresses, family, &Address::family);
    if (found != nic.addresses.end()) return *found;
  }
  return {};
}

int TcpTransport::bind_to_nic(int socket, AddressFamily family, const std::string& device,
                              Address source) {
  const std::optional<AddressNic> address_nic = parse_address_nic(device);
  if (address_nic && source.family == AddressFamily::none) source = address_nic->address;
  if (!device.empty() && !address_nic) {
    int error = bind_to_device(socket, device);
    if (error == EPERM) {
      if (!told_unbound_) {
        R2CCL_LOG(warn,
                  "binding sockets to a device is not permitted here: they are bound to its "
                  "address, and the traffic of a dead NIC may leave by another");
      }
      told_unbound_ = true;
      error = prefer_device(socket, family, device);
      if (source.family == AddressFamily::none) source = source_on(device, family);
    }
    if (error != 0) return error;
    set_scope(source, device);
  }
  return source.family == AddressFamily::none ? 0 : bind_source(socket, source);
}

int TcpTransport::prepare_connect(int socket, Endpoint& remote, const ConnectOptions& options) {
  const uint32_t low_water =
      options.unsent_low_water != 0 ? options.unsent_low_water : options_.unsent_low_water;
  if (const int error = set_stream_options(socket, low_water); error != 0) return error;
  if (const int error = set_connect_options(socket); error != 0) return error;
  keep_icmp_errors(socket, true);
  set_scope(remote.address, options.device);
  const std::string& device = options.device;
  const int error = bind_to_nic(socket, remote.address.family, device, options.source);
  if (error != 0 || device.empty() || parse_address_nic(device)) return error;
  return check_carrier(socket, device);
}

Result<std::unique_ptr<Connection>> TcpTransport::connect(const Endpoint& remote,
                                                          const ConnectOptions& options) {
  if (remote.address.family == AddressFamily::none) {
    return Status(Code::invalid_argument, "connect: no address");
  }
  GuardedFd socket = open_socket(remote.address.family);
  if (!socket.valid()) return system_error("connect to " + to_string(remote) + ": socket", errno);
  Endpoint target = remote;
  int error = prepare_connect(socket.get(), target, options);
  if (error == 0) error = start_connect(socket.get(), target);
  return std::unique_ptr<Connection>(new TcpConnection(std::move(socket), target, error));
}

Result<std::unique_ptr<Listener>> TcpTransport::listen(const Endpoint& local,
                                                       const std::string& device) {
  const bool any = local.address.family == AddressFamily::none;
  if (any && bound_device(device).empty()) {
    return Status(Code::invalid_argument, "listen: no address");
  }
  const std::string context = "listen on " +
                              (any ? "port " + std::to_string(local.port) : to_string(local)) +
                              (device.empty() ? "" : " (" + device + ")");
  Endpoint target = local;
  GuardedFd socket = any ? open_any(target.address) : open_socket(local.address.family);
  if (!socket.valid()) return system_error(context + ": socket", errno);
  int error = set_listen_options(socket.get(), target.address.family, any);
  if (error == 0 && !device.empty() && !parse_address_nic(device)) {
    error = bind_to_device(socket.get(), device);
    if (error == EPERM) error = 0;  // the address alone then decides, as in connect()
  }
  if (error != 0) return system_error(context, error);
  set_scope(target.address, device);
  if (const Status status = start_listening(socket.get(), target); !status.ok()) {
    return status.with_context(context);
  }
  const Endpoint bound = local_endpoint(socket.get());
  return std::unique_ptr<Listener>(
      new TcpListener(std::move(socket), bound, options_.unsent_low_water));
}

}  // namespace r2ccl

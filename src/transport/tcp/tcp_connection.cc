#include "transport/tcp/tcp_connection.h"

#include <linux/tcp.h>  // the full tcp_info; it excludes <netinet/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "transport/tcp/socket_address.h"
#include "transport/tcp/socket_options.h"

namespace r2ccl {
namespace {

msghdr message(std::span<const iovec> slices) {
  R2CCL_CHECK(!slices.empty());
  msghdr out{};
  // The calls do not write through the pointer; the struct serves both directions.
  out.msg_iov = const_cast<iovec*>(slices.data());
  // Beyond the kernel's limit the rest is a partial transfer like any other.
  out.msg_iovlen = std::min<size_t>(slices.size(), IOV_MAX);
  return out;
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

IoResult refused(int error) {
  return {.kind = IoKind::refused, .bytes = 0, .error = error};
}

}  // namespace

TcpConnection::TcpConnection(GuardedFd socket, const Endpoint& remote, int error)
    : socket_(std::move(socket)), remote_(remote) {
  if (error != 0) fail(error);
}

TcpConnection::TcpConnection(GuardedFd socket, const Endpoint& remote)
    : socket_(std::move(socket)), remote_(remote), state_(ConnectState::established) {}

TcpConnection::~TcpConnection() {
  // Reset instead of an orderly end, so that nothing lingers in the kernel.
  const linger abort{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
}

IoResult TcpConnection::fail(int error) {
  if (error_ == 0) error_ = error;
  if (state_ == ConnectState::pending) state_ = ConnectState::failed;
  return {.kind = IoKind::failed, .bytes = 0, .error = error_};
}

Endpoint TcpConnection::local() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket_.get(), address.get(), &address.length) != 0) return {};
  return to_endpoint(address);
}

ConnectState TcpConnection::connect_state() {
  if (state_ != ConnectState::pending) return state_;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    // A firewall refuses by ICMP, a kernel without a listener by a reset: only the latter says
    // something about the process there.
    fail(error == ECONNREFUSED && has_icmp_error(socket_.get()) ? EHOSTUNREACH : error);
    return state_;
  }
  sockaddr_storage peer;
  length = sizeof peer;
  if (getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0) {
    state_ = ConnectState::established;
    keep_icmp_errors(socket_.get(), false);
  }
  return state_;
}

int TcpConnection::connect_error() const {
  return state_ == ConnectState::failed ? error_ : 0;
}

IoResult TcpConnection::read(std::span<const iovec> slices) {
  if (state_ == ConnectState::failed) return fail(error_);
  msghdr header = message(slices);
  ssize_t count;
  do {
    count = recvmsg(socket_.get(), &header, 0);
  } while (count < 0 && errno == EINTR);
  if (count > 0)
    return {.kind = IoKind::progressed, .bytes = static_cast<size_t>(count), .error = 0};
  if (count < 0 && is_refusal(errno)) return refused(errno);
  if (count < 0) return would_block(errno) ? IoResult{} : fail(errno);
  // This is the end, or the end of the bytes before an error that a write has already returned.
  return error_ != 0 ? fail(error_) : IoResult{.kind = IoKind::closed, .bytes = 0, .error = 0};
}

IoResult TcpConnection::write(std::span<const iovec> slices) {
  if (error_ != 0) return fail(error_);
  const msghdr header = message(slices);
  ssize_t count;
  do {
    count = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count > 0) written_ += static_cast<uint64_t>(count);
  if (count > 0)
    return {.kind = IoKind::progressed, .bytes = static_cast<size_t>(count), .error = 0};
  if (count == 0) return {};
  if (is_refusal(errno)) return refused(errno);
  return would_block(errno) ? IoResult{} : fail(errno);
}

ConnectionInfo TcpConnection::info() const {
  tcp_info kernel{};
  socklen_t length = sizeof kernel;
  if (getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &kernel, &length) != 0) return {};
  // Where no route leaves from the source, nothing is in flight, and bytes wait unsent.
  const bool owed = kernel.tcpi_unacked > 0 || kernel.tcpi_notsent_bytes > 0;
  return {.smoothed_rtt_ns = static_cast<TimeNs>(kernel.tcpi_rtt) * kMicrosecond,
          .least_rtt_ns = static_cast<TimeNs>(kernel.tcpi_min_rtt) * kMicrosecond,
          .unsent_bytes = kernel.tcpi_notsent_bytes,
          .unacknowledged_bytes = written_ - std::min<uint64_t>(kernel.tcpi_bytes_acked, written_),
          .packets = {.sent = kernel.tcpi_data_segs_out,
                      .retransmitted = kernel.tcpi_total_retrans,
                      .spurious = kernel.tcpi_dsack_dups,
                      .delivered = kernel.tcpi_delivered},
          .acknowledged_bytes = kernel.tcpi_bytes_acked,
          .busy_ns = static_cast<TimeNs>(kernel.tcpi_busy_time) * kMicrosecond,
          .unlimited_bytes_per_ns = kernel.tcpi_delivery_rate_app_limited != 0
                                        ? static_cast<double>(kernel.tcpi_delivery_rate) / kSecond
                                        : 0,
          .unanswered_ns = unanswered_time(owed, kernel.tcpi_last_ack_recv * kMillisecond)};
}

}  // namespace r2ccl

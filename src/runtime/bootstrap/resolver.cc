#include "runtime/bootstrap/resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "base/signals_blocked.h"
#include "runtime/config/duration_text.h"

namespace r2ccl {
namespace {

constexpr TimeNs kLookupPauseMin = 100 * kMillisecond;
constexpr TimeNs kLookupPauseMax = 1 * kSecond;

std::string unresolved(const HostPort& where) {
  return "cannot resolve the host name \"" + where.host + "\"";
}

bool to_endpoint(const addrinfo& info, uint16_t port, Endpoint& out) {
  out = Endpoint();
  out.port = port;
  if (info.ai_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    out.address.family = AddressFamily::ipv4;
    std::memcpy(out.address.bytes.data(), &in->sin_addr, 4);
    return true;
  }
  if (info.ai_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
    out.address.family = AddressFamily::ipv6;
    std::memcpy(out.address.bytes.data(), &in->sin6_addr, 16);
    out.address.scope = in->sin6_scope_id;
    return true;
  }
  return false;
}

// The names of a service appear one by one, and a new resolver knows none of them yet.
bool may_change(int error) {
  return error == EAI_NONAME || error == EAI_AGAIN || error == EAI_NODATA;
}

// The asking and the waiting thread share this. The waiting thread may give up before the asking
// thread ends.
struct Question {
  std::mutex mutex;  // guards `answer`
  std::condition_variable answered;
  std::optional<ResolveAttempt> answer;
};

ResolveAttempt ask_in_any_case(const HostPort& where, AddressFamily family,
                               const ResolveOnce& once) noexcept {
  try {
    return once(where, family);
  } catch (const std::bad_alloc&) {
    return {{}, Status::out_of_memory(), true};
  }
}

// Returns none when `deadline` passes first.
std::optional<ResolveAttempt> ask(const HostPort& where, AddressFamily family, TimeNs patience,
                                  const ResolveOnce& once) {
  const auto question = std::make_shared<Question>();
  try {
    const SignalsBlocked blocked;
    std::thread([question, where, family, once] {
      pthread_setname_np(pthread_self(), "r2ccl-resolve");
      ResolveAttempt answer = ask_in_any_case(where, family, once);
      std::lock_guard lock(question->mutex);
      question->answer = std::move(answer);
      question->answered.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return once(where, family);  // without a thread the call may exceed the bound
  }
  std::unique_lock lock(question->mutex);
  question->answered.wait_for(lock, std::chrono::nanoseconds(patience),
                              [&] { return question->answer.has_value(); });
  return question->answer;
}

void pause(TimeNs duration) {
  Question nobody;
  std::unique_lock lock(nobody.mutex);
  nobody.answered.wait_for(lock, std::chrono::nanoseconds(duration), [] { return false; });
}

}  // namespace

ResolveAttempt resolve_once(const HostPort& where, AddressFamily family) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  switch (family) {
    case AddressFamily::none:
    case AddressFamily::local:
      hints.ai_family = AF_UNSPEC;
      break;
    case AddressFamily::ipv4:
      hints.ai_family = AF_INET;
      break;
    case AddressFamily::ipv6:
      hints.ai_family = AF_INET6;
      break;
  }
  ResolveAttempt attempt;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(where.host.c_str(), nullptr, &hints, &list); error != 0) {
    attempt.error = Status(Code::system, gai_strerror(error));
    attempt.may_change = may_change(error);
    return attempt;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    Endpoint endpoint;
    if (to_endpoint(*info, where.port, endpoint) &&
        std::find(attempt.endpoints.begin(), attempt.endpoints.end(), endpoint) ==
            attempt.endpoints.end()) {
      attempt.endpoints.push_back(endpoint);
    }
  }
  if (attempt.endpoints.empty()) attempt.error = Status(Code::system, "it has no usable address");
  return attempt;
}

Result<std::vector<Endpoint>> resolve(const HostPort& where, AddressFamily family, TimeNs timeout,
                                      const Clock& clock, const ResolveOnce& once) {
  const TimeNs deadline = clock.now() + timeout;
  TimeNs wait = kLookupPauseMin;
  Status latest(Code::system, "the resolver does not answer");
  bool told = false;
  for (TimeNs left = timeout; left > 0; left = deadline - clock.now()) {
    std::optional<ResolveAttempt> attempt = ask(where, family, left, once);
    if (!attempt) break;
    if (!attempt->endpoints.empty()) return std::move(attempt->endpoints);
    latest = attempt->error;
    if (!attempt->may_change) return latest.with_context(unresolved(where));
    if (!std::exchange(told, true)) {
      R2CCL_LOG(info, "%s yet: %s; asks again for %s", unresolved(where).c_str(),
                latest.message().c_str(), duration_text(timeout).c_str());
    }
    pause(std::clamp<TimeNs>(deadline - clock.now(), 0, wait));
    wait = std::min(2 * wait, kLookupPauseMax);
  }
  return Status(Code::timeout, unresolved(where) + " within " + duration_text(timeout) + ": " +
                                   latest.message() +
                                   " (is the name right, and is that host's service up?)");
}

}  // namespace r2ccl

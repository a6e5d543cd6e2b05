#include "transport/shm/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// The state of both rings, then of the references of both directions, then the word.
constexpr size_t kReferencesAt = 2 * sizeof(ShmRingState);
constexpr size_t kWordAt = kReferencesAt + 2 * sizeof(ShmReferenceState);
constexpr size_t kStateBytes = 4096;
constexpr size_t kSegmentBytes = kStateBytes + 2 * kShmRingBytes;
static_assert(kWordAt + sizeof(ShmWord) <= kStateBytes);
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// The bytes that travel with the file. They name the layout of the segment.
constexpr std::array<char, 8> kGreeting = {'r', '2', 's', 'h', 'm', '0', '0', '2'};

// `control` has room for one descriptor and no more, whatever the alignment adds.
struct Message {
  std::array<char, kGreeting.size()> greeting = kGreeting;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  iovec slice{greeting.data(), greeting.size()};
  msghdr header{};

  Message() {
    header.msg_iov = &slice;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_LEN(sizeof(int));
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

// Returns the ring that this end writes.
size_t out(ShmEnd end) {
  return end == ShmEnd::dialing ? 0 : 1;
}

size_t in(ShmEnd end) {
  return 1 - out(end);
}

// Returns the descriptor that came with the message; -1: none.
int descriptor_in(msghdr& header) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
      control->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return fd;
}

}  // namespace

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)) {}

ShmSegment& ShmSegment::operator=(ShmSegment&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

ShmSegment::~ShmSegment() {
  if (memory_ != nullptr) munmap(memory_, kSegmentBytes);
}

GuardedFd ShmSegment::make_file() {
  GuardedFd file =
      GuardedFd::from([] { return memfd_create("r2ccl", MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!file.valid()) return {};
  if (ftruncate(file.get(), kSegmentBytes) != 0) return {};
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return {};
  return file;
}

int ShmSegment::map(int file) {
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return EPROTO;
  struct stat about {};
  if (fstat(file, &about) != 0) return errno;
  if (about.st_size != static_cast<off_t>(kSegmentBytes)) return EPROTO;
  void* const memory = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return errno;
  *this = ShmSegment();
  memory_ = static_cast<std::byte*>(memory);
  return madvise(memory, kSegmentBytes, MADV_DONTFORK) == 0 ? 0 : errno;
}

// The file begins as zeros, which are the initial state of everything in it.
template <typename State>
State& ShmSegment::state(size_t offset) const {
  R2CCL_CHECK(memory_ != nullptr && offset + sizeof(State) <= kStateBytes);
  return *std::launder(reinterpret_cast<State*>(memory_ + offset));
}

std::byte* ShmSegment::ring(size_t ring) const {
  R2CCL_CHECK(memory_ != nullptr && ring < 2);
  return memory_ + kStateBytes + ring * kShmRingBytes;
}

ShmRingState& ShmSegment::ring_state(size_t ring) const {
  return state<ShmRingState>(ring * sizeof(ShmRingState));
}

ShmReferenceState& ShmSegment::reference_state(size_t ring) const {
  return state<ShmReferenceState>(kReferencesAt + ring * sizeof(ShmReferenceState));
}

ShmRingWriter ShmSegment::writer(ShmEnd end) const {
  return {ring_state(out(end)), ring(out(end)), kShmRingBytes};
}

ShmRingReader ShmSegment::reader(ShmEnd end) const {
  return {ring_state(in(end)), ring(in(end)), kShmRingBytes};
}

ShmReferenceWriter ShmSegment::reference_writer(ShmEnd end) const {
  return {ring_state(out(end)), reference_state(out(end))};
}

ShmReferenceReader ShmSegment::reference_reader(ShmEnd end) const {
  return {ring_state(in(end)), reference_state(in(end))};
}

void ShmSegment::introduce(ShmEnd end) {
  auto& known = state<ShmWord>(kWordAt);
  if (end == ShmEnd::dialing) {
    uint64_t word = 0;
    if (getrandom(&word, sizeof word, GRND_NONBLOCK) != sizeof word) return;
    known.word.store(word, std::memory_order_relaxed);
  }
  known.address[out(end)].store(reinterpret_cast<uintptr_t>(&known.word),
                                std::memory_order_release);
}

std::optional<PeerMemory> ShmSegment::peer_memory(ShmEnd end, pid_t process) const {
  const auto& known = state<ShmWord>(kWordAt);
  const uint64_t address = known.address[in(end)].load(std::memory_order_acquire);
  if (address == 0) return std::nullopt;
  return PeerMemory(process, address, known.word.load(std::memory_order_relaxed));
}

int send_shm_file(int socket, int file) {
  Message message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &file, sizeof file);
  const ssize_t sent = sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno;
  return sent == static_cast<ssize_t>(kGreeting.size()) ? 0 : EPROTO;
}

ReceivedFile receive_shm_file(int socket) {
  Message message;
  message.greeting = {};
  ssize_t count = -1;
  int error = 0;
  ReceivedFile received;
  received.file = GuardedFd::from([&] {
    do {
      count = recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    error = errno;
    return count < 0 ? -1 : descriptor_in(message.header);
  });
  if (count < 0) {
    received.error = error;
  } else if (count == 0) {
    received.error = ECONNRESET;
  } else if (count != static_cast<ssize_t>(kGreeting.size()) || message.greeting != kGreeting ||
             (message.header.msg_flags & MSG_CTRUNC) != 0 || !received.file.valid()) {
    received.error = EPROTO;
  }
  return received;
}

}  // namespace r2ccl

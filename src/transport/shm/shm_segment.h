// The memory of one connection: two rings in an anonymous file (memfd_create), which the dialing
// end makes and passes over a Unix-domain socket. The file has no name, so it ends with its last
// mapping and leaves nothing behind, however the processes end. It needs no /dev/shm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/fork_guard.h"
#include "transport/shm/shm_reference.h"
#include "transport/shm/shm_ring.h"

namespace r2ccl {

// Which end of the connection this process is.
enum class ShmEnd : uint8_t { dialing, accepting };

// Owns a mapping of both rings. A forked child has no mapping (MADV_DONTFORK) and must not use the
// object: its destruction there would unmap foreign memory, so release() comes first.
class ShmSegment {
 public:
  ShmSegment() = default;
  ShmSegment(ShmSegment&& other) noexcept;
  ShmSegment& operator=(ShmSegment&& other) noexcept;
  ~ShmSegment();

  // Returns a new file that has its final size. Returns an invalid one, with errno set, on failure.
  static GuardedFd make_file();
  // Maps a file from make_file() of either end. Returns 0 or an errno value: EPROTO when the file
  // could change its size (the owner could then kill this process by SIGBUS) or has a wrong one.
  int map(int file);
  bool mapped() const { return memory_ != nullptr; }
  // Forgets the mapping and leaves it as it is.
  void release() { memory_ = nullptr; }

  ShmRingWriter writer(ShmEnd end) const;
  ShmRingReader reader(ShmEnd end) const;
  ShmReferenceWriter reference_writer(ShmEnd end) const;
  ShmReferenceReader reference_reader(ShmEnd end) const;

  // Tells the other end how it knows this process's memory. The dialing end does so before it
  // passes the file.
  void introduce(ShmEnd end);
  // Returns the memory of the other end, whose process is `process`; nothing before it has
  // introduced itself.
  std::optional<PeerMemory> peer_memory(ShmEnd end, pid_t process) const;

 private:
  template <typename State>
  State& state(size_t offset) const;
  ShmRingState& ring_state(size_t ring) const;
  ShmReferenceState& reference_state(size_t ring) const;
  std::byte* ring(size_t ring) const;

  std::byte* memory_ = nullptr;
};

// Passes `file` over a connected Unix-domain socket. Returns 0 or an errno value.
int send_shm_file(int socket, int file);

// Receives a file that send_shm_file() sent. Returns EAGAIN when it has not arrived yet, and EPROTO
// when the bytes are no greeting of this version.
struct ReceivedFile {
  GuardedFd file;
  int error = 0;
};
ReceivedFile receive_shm_file(int socket);

}  // namespace r2ccl

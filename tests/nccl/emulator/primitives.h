// One group of a kernel's threads: it receives elements from some ranks, combines them with its
// own, and sends the result to others. All of NCCL's collectives consist of such operations.
#pragma once

#include <cstdint>
#include <vector>

#include "connection.h"
#include "reduction.h"
#include "work_format.h"

namespace r2ccl::emulated {

// Sums the source and everything that is received; the target gets the sum, and so does each rank
// that is sent to. Places are numbers of elements from the beginning of the user's buffers.
struct Operation {
  static constexpr int64_t kNone = -1;
  int64_t source = kNone;
  bool receives = false;
  bool sends = false;
  int64_t target = kNone;
  int64_t count = 0;
  bool completes = false;  // the sum has the elements of all ranks
};

class Primitives {
 public:
  struct Setup {
    std::vector<int> from;  // ranks
    std::vector<int> to;
    int connection_index = 0;  // 1 for point-to-point transfers
    Protocol protocol = Protocol::kSimple;
    int slices_in_chunk = 1;  // a chunk arrives in as many pieces
    int steps_in_slice = 1;
    int64_t step_bytes = 0;
    size_t element_bytes = 1;
    char* input = nullptr;
    char* output = nullptr;
  };

  Primitives(const WorkFormat& format, const Channel& channel, const Setup& setup,
             const Reduction& reduction);
  // Stores the steps of the connections for the next kernel.
  ~Primitives();
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;

  // Throws Aborted.
  void run(const Operation& operation);

 private:
  void run_simple(const Operation& operation);
  void run_slice(const Operation& operation, int64_t offset, int64_t count);
  void run_ll(const Operation& operation);
  void gather_ll(const Operation& operation, std::vector<char>& sum);
  char* place(char* buffer, int64_t element) const;

  const Setup setup_;
  const Reduction reduction_;
  std::vector<Connection> receivers_;  // connections to receive from
  std::vector<Connection> senders_;    // connections to send to
};

}  // namespace r2ccl::emulated

// Follows the event streams of a running benchmark (BenchEvents' lines in one file for each rank).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace r2ccl::tools {

using SentBytes = std::vector<std::vector<uint64_t>>;  // by host and NIC

struct DemoVerdict {
  std::string text;     // the whole line
  std::string caption;  // the component and its fault
  double t_s = 0;       // the time of a rank's report, by the monotonic clock
};

class DemoWatch {
 public:
  // files[r] is rank r's stream; it need not exist yet.
  explicit DemoWatch(std::vector<std::string> files);

  // Reads the new lines. Returns the verdicts that no rank had reported before, in words.
  std::vector<DemoVerdict> poll();

  uint64_t operations() const { return operations_; }  // rank 0's
  double last_event_s() const { return last_event_s_; }
  uint64_t checked_elements() const;  // over all ranks
  uint64_t wrong_elements() const;
  // Returns the ranks' counts, one rank a host; NICs by name, none before a rank's first line.
  SentBytes sent_bytes() const;

 private:
  struct Stream {
    std::string file;
    std::streamoff offset = 0;
    std::string partial_line;
    uint64_t checked = 0;
    uint64_t wrong = 0;
    std::vector<uint64_t> sent;  // by NIC
  };
  void read_stream(size_t rank, std::vector<DemoVerdict>* verdicts);
  void take_line(size_t rank, const std::string& line, std::vector<DemoVerdict>* verdicts);

  std::vector<Stream> streams_;
  std::set<std::string> told_;
  uint64_t operations_ = 0;
  double last_event_s_ = 0;
};

}  // namespace r2ccl::tools

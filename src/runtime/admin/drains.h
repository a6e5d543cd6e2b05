// What `r2ccl drain` asks of one rank: the desk for the operators at its own socket, and what it
// does and answers when another rank passes a question on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/limits.h"
#include "runtime/admin/drain_book.h"
#include "runtime/admin/drain_desk.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class Drains {
 public:
  // Of an engine that has been started. All of them must outlive this; `book` may be null.
  Drains(ProgressEngine& engine, const Clock& clock, DrainBook* book);
  ~Drains();
  Drains(const Drains&) = delete;
  Drains& operator=(const Drains&) = delete;

  // Takes out of service what other communicators of this process have out of service.
  void take_over();

  // As DrainDesk::answer.
  std::optional<std::string> answer(uint64_t asker, std::string_view line);
  // What the notice's kind byte says is ours.
  void on_question(Rank peer, std::span<const std::byte> body);
  void on_answer(Rank peer, std::span<const std::byte> body);
  void progress() { desk_.progress(clock_.now()); }
  TimeNs next_timeout() const { return desk_.next_timeout(); }

 private:
  Presence ask(Rank rank, const DrainQuestion& question);
  DrainTally act(const DrainQuestion& question);
  void take_out(NicId nic, uint64_t ticket);
  void put_back(NicId nic);
  bool refuses(NicId nic, const DrainQuestion& question) const;

  ProgressEngine& engine_;
  const Clock& clock_;
  DrainBook* const book_;
  // By own NIC that is out of service: the ticket of whoever alone asked for it; 0: nobody alone.
  std::array<uint64_t, limits::kNicsMax> tickets_{};
  DrainDesk desk_;
};

}  // namespace r2ccl

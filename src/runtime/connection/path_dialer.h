// Opens connections of one path from the initiating end: both, the data connection first, or the
// control stream alone, or the data connection that joins it. Each stage is bounded in time. Or
// only probes whether the peer's kernel answers, or only calls: delivers a notice behind a
// handshake. The dialer makes one attempt; the link decides when to begin the next.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "protocol/wire/handshake.h"
#include "runtime/connection/dial_gate.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/reactor.h"
#include "transport/transport.h"

namespace r2ccl {

// The connections that an attempt opens.
enum class DialOpens : uint8_t {
  both,     // of a new incarnation
  control,  // of a new incarnation
  data,     // joins the incarnation `last_used`
};

// The rank that relays the connections of an attempt.
struct DialRelay {
  Rank via;
  NicId via_nic = kNoNic;  // its NIC, whose listener `remote` is
  std::array<std::array<std::byte, kNonceBytes>, 2> nonces{};  // as start() has them
};

struct DialRequest {
  PathId path;
  NicId local_nic = kNoNic;
  NicId remote_nic = kNoNic;
  DialOpens opens = DialOpens::both;
  // Only probe whether the peer's kernel answers on this path; no handshake.
  bool probe_only = false;
  // If not empty: only deliver this notice to the peer.
  std::vector<std::byte> call;
  // If set: `remote` belongs to this rank, and `remote_nic` does not count.
  std::optional<DialRelay> relay;
  Rank self;
  Rank peer;
  Endpoint remote;
  ConnectOptions options;
  Incarnation last_used;
  // The peer's kernel must answer the first packet within this.
  TimeNs answered_within = 2 * limits::kConnectAttempt;
  // The peer's process must have shaken hands within this after that.
  TimeNs shaken_within = 2 * limits::kConnectAttempt;
};

struct DialedPath {
  std::optional<EstablishedConnection> data;
  std::optional<EstablishedConnection> control;  // both absent after a probe or a call
};

struct DialFailure {
  int error = 0;           // errno of a failed connect; ETIMEDOUT when a stage exceeded its time
  bool connected = false;  // the peer's kernel accepted before the failure
  std::string why;
};

class PathDialer final : private EventHandler, private DialGate::Place::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Called from inside progress or I/O. The dialer is idle again by then.
    virtual void on_dialed(PathDialer& dialer, DialedPath dialed) = 0;
    virtual void on_dial_failed(PathDialer& dialer, const DialFailure& failure) = 0;
    // A gate has admitted the dialer. Called from inside the end of another dialer's attempt.
    virtual void on_admitted() {}
  };

  PathDialer(Owner& owner, Reactor& reactor, Transport& transport, const RunIdentity& run)
      : owner_(owner), reactor_(reactor), transport_(transport), run_(run) {}

  bool busy() const { return stage_ != Stage::idle; }
  // Returns whether the peer's kernel has not answered any connection of the attempt yet.
  bool connecting() const { return stage_ == Stage::connecting && !answered_; }
  bool probing() const { return busy() && request_.probe_only; }
  // Returns whether an attempt is to join the data connection, and nothing else.
  bool joining() const { return busy() && request_.opens == DialOpens::data; }
  TimeNs started_at() const { return started_at_; }
  const DialRequest& request() const { return request_; }
  // Returns whether `gate` admits the next attempt. If not, the dialer waits in its line. The end
  // of the attempt, or cancel(), gives the place back.
  bool enter(DialGate& gate) { return place_.enter(gate); }
  bool waits() const { return place_.waits(); }
  // Gives a place back that no attempt uses.
  void leave_gate() {
    if (!busy()) place_.leave();
  }
  // `nonces`: fresh random bytes for each of the two handshakes.
  void start(DialRequest request, std::array<std::array<std::byte, kNonceBytes>, 2> nonces,
             TimeNs now);
  void cancel();
  // Gives up a stage that exceeds its time.
  void progress(TimeNs now);
  TimeNs next_timeout() const { return busy() ? deadline_ : kNever; }

 private:
  enum class Stage : uint8_t {
    idle,
    connecting,  // the kernel's handshake is under way
    shaking,     // this library's handshake is under way
    hanging_up,  // the peer closes once it has read a call
  };

  struct Attempt {
    std::array<std::array<std::byte, kNonceBytes>, 2> nonces;
    std::optional<HandshakeIo> io;
    DialedPath dialed;
  };

  void on_ready(const PollEvent& event) override;
  void on_admitted() override { owner_.on_admitted(); }
  void connect(TimeNs answered_by, TimeNs done_by);
  void on_connected();
  ConnectionKind kind() const;
  void ask_relay();
  bool on_relayed(EstablishedConnection established);
  void shake(NicId remote_nic);
  void told();
  void pump();
  void take_established();
  void fail(int error, const std::string& why);

  Owner& owner_;
  Reactor& reactor_;
  Transport& transport_;
  const RunIdentity& run_;
  Stage stage_ = Stage::idle;
  DialRequest request_;
  bool on_control_ = false;  // the connection being opened is the control stream
  bool asks_relay_ = false;  // the handshake is that with the rank that relays
  bool answered_ = false;
  TimeNs started_at_ = 0;
  TimeNs deadline_ = kNever;  // deadline of the stage
  TimeNs done_by_ = kNever;   // deadline of the connection
  DialGate::Place place_{static_cast<DialGate::Place::Owner&>(*this)};
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Attempt> attempt_;    // there while busy(): most dialers rest
  Reactor::Registration registration_;  // last: ends before the connection
};

}  // namespace r2ccl

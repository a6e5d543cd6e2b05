#include "tests/fuzz/seeds.h"

#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/text/plan_text.h"
#include "protocol/admin/drain.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/wire.h"
#include "runtime/admin/rank_summary.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/collective/collective_mismatch_detector.h"
#include "runtime/link/notice.h"
#include "runtime/point_to_point/tagged_frame.h"
#include "runtime/query/rank_query.h"
#include "tests/fuzz/agreement_seeds.h"
#include "tests/fuzz/seed_list.h"
#include "tools/simulate/scenario_file.h"

namespace r2ccl {
namespace {

Address address4(uint8_t last) {
  Address address;
  address.family = AddressFamily::ipv4;
  address.bytes = {10, 77, 1, last};
  address.prefix_bits = 24;
  return address;
}

Address address6(uint8_t last) {
  Address address;
  address.family = AddressFamily::ipv6;
  address.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  address.prefix_bits = 64;
  return address;
}

void add_blame(Seeds& seeds) {
  Observation seen;
  seen.observer = Rank(2);
  seen.peer = Rank(1);
  seen.near = {0, "nic0"};
  seen.far = {1, "nic0"};
  seen.cause = DownCause::peer_notice;
  seen.peer_cause = DownCause::silent;
  seen.detected_us = 123'456;
  seen.retransmitted_bytes = 70'000;
  seen.stall_us = 900;
  seen.since_up_us = 60'000'000;
  seeds.add("blame", "observation", with({0}, encode(seen)));
  Verdict verdict;
  verdict.number = 3;
  verdict.scope = Scope::pair;
  verdict.faulty = {1, "nic0"};
  verdict.other = {2, "nic0"};
  verdict.rank = Rank(2);
  verdict.kind = DownCause::silent;
  verdict.detected_us = 123'456;
  seeds.add("blame", "verdict", with({1}, encode(verdict)));
  seeds.add("blame", "probe_request", with({2}, encode(ProbeRequest{1, {0, 1, 2}})));
  const ProbeAnswer answer{
      1, 2, {{{2, "nic0"}, {0, "nic0"}, true}, {{2, "nic0"}, {1, "nic0"}, false}}};
  seeds.add("blame", "probe_answer", with({3}, encode(answer)));
  seeds.add("blame", "probe_answer_to_judge", with({4}, encode(answer)));
}

void add_notices(Seeds& seeds) {
  const std::vector<std::byte> report = encode(CallReport());
  seeds.add("notice", "first", make_notice(NoticeKind::calls, report).bytes);
  seeds.add("notice", "context",
            make_notice(NoticeKind::calls, 3, report, ContextId(70'000)).bytes);
  seeds.add("notice", "ended", make_notice(NoticeKind::ended, 0, {}, kContextMax).bytes);
}

void add_calls(Seeds& seeds) {
  CallReport report;
  report.reason = CallReport::Reason::answer;
  report.number = 9;
  report.chain = 0x1234;
  report.sends = 3;
  report.receives = 4;
  report.waits = true;
  report.waits_for = Rank(1);
  report.root.kind = Blocker::Kind::behind;
  report.root.rank = Rank(2);
  report.root.number = 8;
  report.root_age_ms = 70;
  report.text = "AllReduce of 4 int32";
  seeds.add("call_report", "answer", encode_calls(report));
  report.reason = CallReport::Reason::end;
  seeds.add("call_report", "end", encode(report));
  CallReport empty;
  empty.reason = CallReport::Reason::closing;
  seeds.add("call_report", "empty", encode(empty));
}

void add_queries(Seeds& seeds) {
  const std::vector<std::byte> body = encode(DrainQuestion());
  seeds.add("query", "drain", encode(QueryMessage{QueryTopic::drain, 1, body}));
  seeds.add("query", "probe", encode(QueryMessage{QueryTopic::probe, 1, {}}));
}

void add_admin(Seeds& seeds) {
  const std::array<std::byte, 5> payload{};
  seeds.add("tagged_frame", "whole",
            encode(TaggedFrame{.kind = TaggedFrame::Kind::whole,
                               .type = DataType::int8,
                               .tag = 7,
                               .number = 3,
                               .bytes = payload.size(),
                               .taken = 300,
                               .payload = payload}));
  seeds.add("tagged_frame", "announce",
            encode(TaggedFrame{.kind = TaggedFrame::Kind::announce, .tag = 1, .bytes = 1 << 20}));
  seeds.add("tagged_frame", "grant",
            encode(TaggedFrame{.kind = TaggedFrame::Kind::grant, .number = 2}));
  seeds.add("tagged_frame", "credit", encode(TaggedFrame{.taken = 1 << 20}));

  DrainQuestion question;
  question.verb = DrainVerb::take_back;
  question.host = Rank(2);
  question.nic = "nic0";
  question.ticket = 0xfeed;
  seeds.add("drain", "question", encode(question));
  DrainTally tally;
  tally.paths = 6;
  tally.up = 5;
  tally.in_use = 1;
  tally.peer = Rank(1);
  seeds.add("drain", "answer", encode(tally));

  RankSummary summary;
  summary.uptime_ms = 100'000;
  summary.operations = 12;
  summary.error = "rank 2 died";
  summary.call = "AllReduce of 4 int32";
  summary.blocker.kind = Blocker::Kind::running;
  summary.blocker.rank = Rank(0);
  summary.nics.push_back({.nic = NicId(0), .sent = 70'000, .received = 1, .paths_up = 1});
  summary.troubles.push_back({.peer = Rank(0), .nic = NicId(0), .peer_nic = NicId(1)});
  summary.relays.push_back({.peer = Rank(2), .via = Rank(1), .dials = true, .sent = 4096});
  seeds.add("rank_summary", "full", encode(summary));
  seeds.add("rank_summary", "empty", encode(RankSummary()));

  for (const char* verb : {"check", "start", "start:1f", "undo", "back:ffffffffffffffff"}) {
    std::string name(verb);
    name = name.substr(0, name.find(':')) + (name.find(':') == std::string::npos ? "" : "_ticket");
    seeds.add("status_request", name, "drain " + std::string(verb) + " nic0 node0\n");
  }
  seeds.add("status_request", "spaces", "drain check nic0 a host with spaces\n");
  seeds.add("status_request", "unknown_nic", "drain check nic9 node0\n");
  seeds.add("status_request", "report", "report\n");
  seeds.add("status_request", "job", "job\n");
}

void add_bootstrap(Seeds& seeds) {
  RankInfo info;
  info.rank = Rank(0);
  info.host_name = "node0";
  info.pid = 4711;
  info.settings.push_back({"R2CCL_ALGO", "ring"});
  NicInfo nic;
  nic.name = "nic0";
  nic.mtu = 9000;
  nic.speed_mbps = 100'000;
  nic.addresses = {address4(1), address6(1)};
  nic.port = 4711;
  info.nics.push_back(nic);
  info.control.push_back({address4(1), 4712});
  info.shm.address.family = AddressFamily::local;
  info.shm.address.bytes = {1, 2, 3};
  info.shm.port = 1;
  const Bytes first = encode(info).value();
  seeds.add("rank_card", "full", first);
  seeds.add("rank_card", "empty", encode(RankInfo()).value());
  RankInfo other;
  other.rank = Rank(1);
  other.init_error = "no usable NIC";
  const Bytes second = encode(other).value();
  seeds.add("rank_card", "obstacle", second);

  Arrival arrival;
  arrival.rank_count = 2;
  arrival.timeout_ms = 120'000;
  arrival.left_ms = 119'000;
  arrival.info = first;
  const std::array<std::span<const std::byte>, 2> rank_table{first, second};
  seeds.add("rendezvous_messages", "arrival", with({0}, encode(arrival)));
  seeds.add("rendezvous_messages", "table_of_one",
            with({1}, encode_table(std::span(rank_table).first(1))));
  seeds.add("rendezvous_messages", "table_of_two", with({4}, encode_table(rank_table)));
  seeds.add("rendezvous_messages", "refused",
            with({2}, encode_refused({Code::timeout, "rank 3 did not come within 120 s"})));

  UniqueId id;
  id.job.id.fill(std::byte{5});
  id.rendezvous = {{address4(1), 4711}, {address6(1), 4712}};
  seeds.add("unique_id", "open", with({0}, encode(id)));
  std::array<std::byte, kSecretBytes> secret{std::byte{7}};
  id.job.secret = LockedBytes::copy_of(secret);
  seeds.add("unique_id", "secret", with({0}, encode(id)));
  seeds.add("unique_id", "checksum_made", with({1}, encode(id)));
  seeds.add("unique_id", "zero", with({0}, Bytes(kUniqueIdBytes)));

  const std::string digits(64, 'a');
  seeds.add("process_handle", "of_a_process", "r2ccl1:host-1.example:4711:" + digits);
  seeds.add("process_handle", "no_digits", "r2ccl1:host:1:" + std::string(64, 'x'));
  seeds.add("process_handle", "no_host", "r2ccl1::1:" + digits);

  const std::string text(
      "\x07\x05"
      "hello"
      "\x08\x00"
      "\x09\x03"
      "abc",
      14);
  seeds.add("sealed_stream", "stranger", with({0, 9}, Bytes(64)));
  seeds.add("sealed_stream", "messages", with({1, 1}, std::as_bytes(std::span(text))));
  seeds.add("sealed_stream", "several_records",
            with({253, 255}, std::as_bytes(std::span("\x01\xff\x02\x02"))));
  seeds.add("sealed_stream", "changed_header",
            with({2, 1, 8, 0, 0, 0}, std::as_bytes(std::span(text))));
  seeds.add("sealed_stream", "changed_body",
            with({2, 1, 140, 0, 0, 0}, std::as_bytes(std::span(text))));
}

Bytes twice(Bytes bytes) {
  const Bytes again = bytes;
  bytes.insert(bytes.end(), again.begin(), again.end());
  return bytes;
}

void add_wire(Seeds& seeds) {
  DataHeader header;
  header.payload_bytes = 1001;
  header.incarnation = Incarnation(2);
  header.channel = ChannelId(4);
  header.message = MessageNo(4);
  header.message_bytes = 5005;
  header.offset = 1001;
  header.chunk_bytes = 1001;
  std::array<std::byte, kDataHeaderBytes> bytes;
  encode(header, bytes);
  seeds.add("wire", "chunk", with({0}, bytes));
  // The harness makes the payload 13 times the lowest byte of its size.
  header.payload_bytes = 77;
  encode(header, bytes);
  seeds.add("frame_reader", "two_frames", twice(with({31}, bytes)));
  seeds.add("frame_reader", "unsealed", with({30}, bytes));
  seeds.add("frame_reader", "carrying", twice(with({63}, bytes)));
  seeds.add("frame_reader", "changed_state", with({127}, bytes));
  header.type = FrameType::probe;
  encode(header, bytes);
  seeds.add("wire", "probe", with({0}, bytes));
  seeds.add("frame_reader", "probe", with({31}, bytes));
  ControlFrame frame;
  frame.control_sequence = 1;
  frame.version = 2;
  frame.counted = 2;
  frame.ping = 5;
  frame.paths.push_back({PathId(7), Incarnation(2), PathPhase::up, DownCause::none, 10, 12, 13});
  frame.channels.push_back({ChannelId(9),
                            MessageNo(4),
                            MessageNo(8),
                            4096,
                            {{MessageNo(5), 3, Bytes(2, std::byte{5})}}});
  frame.notices.push_back({6, Bytes(5, std::byte{1})});
  Bytes control;
  encode(frame, control);
  ControlFrame carried = frame;
  carried.ping = 0;
  carried.notices.clear();
  Bytes state;
  encode_carried_state(carried, state);
  seeds.add("wire", "carried_state", with({3}, state));
  seeds.add("wire", "control_header", with({1}, control));
  seeds.add("wire", "control_body", with({2}, std::span(control).subspan(kControlHeaderBytes)));
  seeds.add("printable", "ascii", with({60}, text_bytes("node7 nic0")));
  seeds.add("printable", "cut", with({2}, text_bytes("a text that is too long")));
  seeds.add("printable", "utf8", with({60}, text_bytes("Z\xc3\xbcrich \xe2\x82\xac")));
  seeds.add("printable", "hostile", with({60}, text_bytes("\x1b[2J\xc2\x9b\xe2\x80\xae\xff")));
}

void add_handshakes(Seeds& seeds) {
  const std::array<std::byte, kNonceBytes> nonce{};
  const std::array<std::byte, kSecretBytes> key{};
  RunIdentity run;
  run.key = LockedBytes::copy_of(key);
  const auto peer = make_initiator(run, {}, Incarnation(), nonce, {});
  seeds.add("handshake", "hello_to_acceptor", with({2, 40}, peer->output()));
  const ConnectionIdentity relayed{ConnectionKind::relay, Rank(0),  Rank(1),
                                   PathId(0xfefc),        NicId(1), NicId(0)};
  const auto behind = make_initiator(run, relayed, Incarnation(), nonce, {});
  seeds.add("handshake", "hello_to_relay", with({2, 60}, behind->output()));
  JobIdentity job;
  const auto rank = make_rendezvous_initiator(job, Rank(0), nonce);
  seeds.add("handshake", "hello_to_rendezvous", with({6, 40}, rank->output()));
  seeds.last_is_random();
  job.secret = LockedBytes::copy_of(key);
  const auto secret_rank = make_rendezvous_initiator(job, Rank(0), nonce);
  seeds.add("handshake", "hello_to_rendezvous_with_secret", with({7, 200}, secret_rank->output()));
  seeds.last_is_random();
  seeds.add("handshake", "part_of_a_hello", with({2, 9}, std::span(peer->output()).first(20)));
}

// One message of the kernel. Attributes are appended by put().
class KernelMessage {
 public:
  template <typename Header>
  KernelMessage(uint16_t type, const Header& header) {
    append(nlmsghdr{
        .nlmsg_len = 0, .nlmsg_type = type, .nlmsg_flags = 0, .nlmsg_seq = 1, .nlmsg_pid = 0});
    append(header);
    pad();
  }
  void put(uint16_t type, std::span<const std::byte> value) {
    append(
        rtattr{.rta_len = static_cast<uint16_t>(sizeof(rtattr) + value.size()), .rta_type = type});
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    pad();
  }
  void put(uint16_t type, const std::string& text) {
    put(type, std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  }
  Bytes take() {
    const auto size = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof size);
    return std::move(bytes_);
  }

 private:
  template <typename T>
  void append(const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }

  Bytes bytes_;
};

Bytes kernel_link(int index, const std::string& name, uint16_t type, const std::string& driver) {
  ifinfomsg header{};
  header.ifi_type = type;
  header.ifi_index = index;
  header.ifi_flags = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;
  KernelMessage message(RTM_NEWLINK, header);
  const uint32_t mtu = 9000;
  const std::array<std::byte, 6> hardware{std::byte{2}, std::byte{1}};
  message.put(IFLA_IFNAME, name);
  message.put(IFLA_MTU, std::as_bytes(std::span(&mtu, 1)));
  message.put(IFLA_ADDRESS, hardware);
  if (!driver.empty()) {
    Bytes kind = with({static_cast<unsigned>(sizeof(rtattr) + driver.size()), 0, IFLA_INFO_KIND, 0},
                      std::as_bytes(std::span(driver)));
    message.put(IFLA_LINKINFO, kind);
  }
  return message.take();
}

Bytes kernel_address(uint32_t index, const Address& address) {
  ifaddrmsg header{};
  header.ifa_family = address.family == AddressFamily::ipv4 ? AF_INET : AF_INET6;
  header.ifa_prefixlen = address.prefix_bits;
  header.ifa_index = index;
  KernelMessage message(RTM_NEWADDR, header);
  message.put(IFA_ADDRESS,
              std::as_bytes(
                  std::span(address.bytes).first(address.family == AddressFamily::ipv4 ? 4 : 16)));
  return message.take();
}

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

void add_netlink(Seeds& seeds) {
  Address link_local = address6(1);
  link_local.bytes[0] = 0xfe;
  link_local.bytes[1] = 0x80;
  const Bytes done = KernelMessage(NLMSG_DONE, int{0}).take();
  const Bytes first = kernel_link(1, "lo", ARPHRD_LOOPBACK, "");
  const Bytes second = kernel_link(2, "nic0", ARPHRD_ETHER, "veth");
  seeds.add("netlink", "one_datagram",
            with({0}, join({first, second, kernel_address(2, address4(1)),
                            kernel_address(2, link_local), kernel_address(2, address6(1)), done})));
  const auto cut = static_cast<unsigned>((first.size() + second.size()) / 4);
  seeds.add("netlink", "two_datagrams",
            with({cut}, join({first, second, kernel_address(2, address6(1)), done})));
  seeds.add("netlink", "infiniband",
            with({0}, join({kernel_link(4, "ib0", ARPHRD_INFINIBAND, "ipoib"), done})));
  nlmsgerr refusal{};
  refusal.error = -13;
  seeds.add("netlink", "refused", with({0}, KernelMessage(NLMSG_ERROR, refusal).take()));
}

void add_texts(Seeds& seeds) {
  seeds.add("fault_file", "combined",
            "# the NICs that are broken now\n\n127.0.3.2 hole slow 3125000  # and why\nnic1 down\n"
            "nic2 hole-tx\nnic3 hole-rx delay 5 queue 3000\nnic4 no-buffers\n");
  seeds.add("fault_file", "flip", "nic0 flip 5232 9 1\n");
  seeds.add("fault_file", "last_line_counts", "nic0 hole\nnic0 down");
  seeds.add("fault_file", "refused", "nic1 slow -5\nnic1 flip 523 1 1\nnic1 burning\nnic1\n");
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const std::string text = tools::to_toml(sim::scenario_of(seed));
    if (text.size() <= 4096) seeds.add("scenario_file", "seed_" + std::to_string(seed), text);
  }
  seeds.add("scenario_file", "small", "[[operation]]\ncount = 5\nrepeat = 3\n");
  seeds.add("scenario_file", "fault",
            "hosts = 3\nnics = 2\n[[operation]]\nkind = \"broadcast\"\ncount = 7\nroot = 1\n"
            "[[fault]]\nkind = \"loss\"\nat_ms = 1.5\nhost = 1\nnic = 1\namount = 1000\n");
  seeds.add("scenario_file", "refused", "hosts = 1\nnic = 3\n[[operation]]\nkind = \"gather\"\n");
  seeds.add("environment", "torchrun",
            "RANK=3\nWORLD_SIZE=8\nLOCAL_RANK=1\nMASTER_ADDR=node0\nMASTER_PORT=29500\n"
            "TORCHELASTIC_RUN_ID=none\n");
  seeds.add("environment", "slurm",
            "SLURM_PROCID=3\nSLURM_NTASKS=8\nSLURM_LOCALID=1\nSLURM_JOB_NODELIST=gpu[04,06-9]\n"
            "SLURM_JOB_ID=16000017\nSLURM_STEP_ID=0\n");
  seeds.add("environment", "open_mpi",
            "OMPI_COMM_WORLD_RANK=3\nOMPI_COMM_WORLD_SIZE=8\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"
            "R2CCL_COMM_ID=[fd00::1]:4711\n");
  seeds.add("environment", "mpich", "PMI_RANK=0\nPMI_SIZE=1\nMPI_LOCALRANKID=0\n");
  seeds.add("environment", "all_settings",
            "R2CCL_SOCKET_IFNAME=^=eth0,lo\nR2CCL_SOCKET_FAMILY=AF_INET6\nR2CCL_OOB_IFNAME=eth\n"
            "R2CCL_DEBUG=INFO\nR2CCL_DEBUG_FILE=log.%h\nR2CCL_COMM_ID=node0:4711\n"
            "R2CCL_SECRET=0123456789abcdef\nR2CCL_REQUIRE_AUTH=1\nR2CCL_CUTOFF_S=60\n"
            "R2CCL_INIT_TIMEOUT_S=30\nR2CCL_MONITOR=0\nR2CCL_ALGO=hd\nR2CCL_DAMPING=0\n"
            "R2CCL_HOST_ID=node7\nR2CCL_FAULT_FILE=faults\nR2CCL_STATUS=0\n"
            "XDG_RUNTIME_DIR=/run\nRANK=0\nWORLD_SIZE=2\n");
  seeds.add("environment", "nccl",
            "NCCL_SOCKET_IFNAME=eth\nNCCL_SOCKET_FAMILY=AF_UNIX\nNCCL_DEBUG=ABORT\n"
            "NCCL_COMM_ID=node0:1\nRANK=0\nWORLD_SIZE=1\n");
  seeds.add("environment", "refused", "R2CCL_ALGO=tree\nR2CCL_ALG=ring\nRANK=9\nWORLD_SIZE=8\n");
}

void add_plans(Seeds& seeds) {
  PlanKey key;
  key.rank_count = 3;
  key.count = 7;
  key.hosts = HostGroups(std::vector<uint32_t>{0, 0, 1});
  seeds.add("plan_text", "all_reduce", print_plan(make_whole_plan(key)));
  key.hosts = {};
  key.collective = Collective::reduce_scatter;
  key.algorithm = Algorithm::recursive_doubling;
  key.in_place = true;
  key.type = DataType::bfloat16;  // has wide memory
  seeds.add("plan_text", "reduce_scatter", print_plan(make_whole_plan(key)));
  key.collective = Collective::gather;
  key.blocks = {{3, 0, 2}, {5, 4, 1}};
  seeds.add("plan_text", "gather", print_plan(make_whole_plan(key)));
  key.collective = Collective::barrier;
  key.blocks = {};
  seeds.add("plan_text", "barrier", print_plan(make_whole_plan(key)));
  key.collective = Collective::all_to_all;
  key.blocks = {{2, 2, 2}, {9, 4, 0}};
  key.received = {{2, 2, 2}, {}};
  const std::string text = print_plan(make_whole_plan(key));
  seeds.add("plan_text", "all_to_all", text);
  seeds.add("plan_text", "refused", "# by hand\n" + text + "rank 3\n");
}

}  // namespace

std::vector<Seed> all_seeds() {
  Seeds seeds;
  add_blame(seeds);
  add_admin(seeds);
  add_notices(seeds);
  add_queries(seeds);
  add_calls(seeds);
  add_agreements(seeds);
  add_bootstrap(seeds);
  add_wire(seeds);
  add_handshakes(seeds);
  add_netlink(seeds);
  add_plans(seeds);
  add_texts(seeds);
  return seeds.take();
}

}  // namespace r2ccl

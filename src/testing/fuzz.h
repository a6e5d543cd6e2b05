// The entries of the fuzzers: each feeds one parser, or a few that belong together, with bytes from
// outside this process. libFuzzer programs, the unit test of the stored inputs and tests with
// random input share them, so that they run with every compiler.
//
// An entry checks with R2CCL_CHECK, for every input: an accepted value is within its bounds and
// encodes to bytes that decode to the same value; a refusal has a text. It returns whether the
// parser accepted the input. In most entries the first byte of the input chooses the parser.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The messages of the fault localiser, as from a hostile rank.
bool fuzz_blame(std::span<const std::byte> input);
// A rank's report of its calls.
bool fuzz_call_report(std::span<const std::byte> input);
// The questions and answers about a drained NIC.
bool fuzz_drain(std::span<const std::byte> input);
// The environment of a process, as lines NAME=value: settings and the launcher's variables.
bool fuzz_environment(std::span<const std::byte> input);
// The text of a fault file.
bool fuzz_fault_file(std::span<const std::byte> input);
// The reader of data frames, with headers of any bytes, with a valid or an invalid tag, each with
// its payload or a part of it. The reader's owner receives only sealed headers, in their order, and
// their payload goes to the owner's destination.
bool fuzz_frame_reader(std::span<const std::byte> input);
// The handshakes. The first byte chooses the role and the secret, the second byte the size of the
// reads. A peer without the key is never accepted, memory stays bounded, and a failed handshake
// takes no more bytes.
bool fuzz_handshake(std::span<const std::byte> input);
// The kernel's answer to the question for its interfaces and addresses, in one or two datagrams.
bool fuzz_netlink(std::span<const std::byte> input);
bool fuzz_notice(std::span<const std::byte> input);
// The handle of an NCCL listener, and the messages of a connect.
bool fuzz_nccl_connect(std::span<const std::byte> input);
// The text of a plan. The checker survives every plan that the reader accepts.
bool fuzz_plan_text(std::span<const std::byte> input);
// Text from outside that is made safe to show.
bool fuzz_printable(std::span<const std::byte> input);
// The header of a question to a rank, or of its answer.
bool fuzz_query(std::span<const std::byte> input);
bool fuzz_rank_info(std::span<const std::byte> input);
bool fuzz_rank_summary(std::span<const std::byte> input);
// The messages between a rank and the rendezvous. No refusal decodes to a success.
bool fuzz_rendezvous_messages(std::span<const std::byte> input);
// A sealed stream. It carries the messages of the input unchanged in pieces of any size, delivers
// no message from the first changed byte on, and none from a peer without the keys.
bool fuzz_sealed_stream(std::span<const std::byte> input);
// A message about a smaller communicator, as from a hostile rank. A call under way survives it.
bool fuzz_shrink(std::span<const std::byte> input);
// Any bytes as the handle of a process.
bool fuzz_process_handle(std::span<const std::byte> input);
// One line of a client of the status socket, with its answer when it is about a drain.
bool fuzz_status_request(std::span<const std::byte> input);
// The 128 bytes of a unique id. An odd first byte makes its checksum valid.
bool fuzz_tagged_frame(std::span<const std::byte> input);
bool fuzz_unique_id(std::span<const std::byte> input);
// A message about a view, as from a hostile rank. An agreement under way survives it.
bool fuzz_view(std::span<const std::byte> input);
// Any bytes as a data header, as the header of a control frame, or as its body.
bool fuzz_wire(std::span<const std::byte> input);

}  // namespace r2ccl

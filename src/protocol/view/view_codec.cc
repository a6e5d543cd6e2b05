// A view on the wire: the distinct rates of its hosts, then runs of hosts with equal rates. So a
// view in which few hosts differ takes few bytes, however many hosts there are.
#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.h"
#include "protocol/view/view_messages.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

enum class Kind : uint8_t { ask = 0, answer = 1, commit = 2 };

size_t class_of(const std::vector<HostRates>& classes, const HostRates& rates) {
  return static_cast<size_t>(std::ranges::find(classes, rates) - classes.begin());
}

void put_rates(ByteWriter& out, const HostRates& rates) {
  out.put(static_cast<uint8_t>(rates.size()));
  for (const NicRate& nic : rates) {
    out.put(nic.send);
    out.put(nic.receive);
  }
}

HostRates get_rates(ByteReader& in) {
  HostRates rates(in.get<uint8_t>());
  for (NicRate& nic : rates) {
    nic.send = in.get<uint32_t>();
    nic.receive = in.get<uint32_t>();
  }
  return rates;
}

Status refused(const char* what) {
  return {Code::remote, std::string("a message about a view ") + what};
}

}  // namespace

void put_view(ByteWriter& out, const View& view) {
  std::vector<HostRates> classes;
  std::vector<std::pair<uint32_t, uint16_t>> runs;  // length and class
  if (!view.empty()) {
    for (const HostRates& rates : view.hosts()) {
      const size_t number = class_of(classes, rates);
      if (number == classes.size()) classes.push_back(rates);
      if (runs.empty() || runs.back().second != number) {
        runs.emplace_back(0, static_cast<uint16_t>(number));
      }
      ++runs.back().first;
    }
  }
  out.put(static_cast<uint16_t>(classes.size()));
  for (const HostRates& rates : classes) put_rates(out, rates);
  out.put(static_cast<uint32_t>(runs.size()));
  for (const auto& [length, number] : runs) {
    out.put(length);
    out.put(number);
  }
}

Result<View> get_view(ByteReader& in, size_t host_count) {
  std::vector<HostRates> classes;
  const size_t class_count = in.get<uint16_t>();
  for (size_t i = 0; i < class_count && !in.bad(); ++i) {
    classes.push_back(get_rates(in));
    if (classes.back().size() > limits::kNicsMax) return refused("with too many NICs of a host");
  }
  std::vector<HostRates> hosts;
  const size_t run_count = in.get<uint32_t>();
  for (size_t i = 0; i < run_count && !in.bad(); ++i) {
    const size_t length = in.get<uint32_t>();
    const size_t number = in.get<uint16_t>();
    if (in.bad()) break;
    if (number >= classes.size()) return refused("with rates that it does not list");
    if (length == 0 || length > host_count - hosts.size()) {
      return refused("with no host, or too many, in a run");
    }
    hosts.insert(hosts.end(), length, classes[number]);
  }
  if (in.bad()) return refused("is truncated");
  if (!hosts.empty() && hosts.size() < host_count) return refused("lacks hosts");
  return View::of(std::move(hosts));
}

namespace {

void put_record(ByteWriter& out, const ViewRecord& record) {
  out.put(record.version);
  out.put(record.start);
  put_view(out, record.view);
}

Result<ViewRecord> get_record(ByteReader& in, size_t hosts) {
  ViewRecord record;
  record.version = in.get<uint64_t>();
  record.start = in.get<uint64_t>();
  Result<View> view = get_view(in, hosts);
  if (!view.ok()) return view.status();
  record.view = std::move(view).value();
  return record;
}

void put(ByteWriter& out, const ViewAsk& ask) {
  out.put(static_cast<uint8_t>(Kind::ask));
  out.put(ask.ballot);
  out.put(ask.round);
  out.put(static_cast<uint8_t>(ask.stage));
  out.put(ask.known);
  if (ask.proposal) put_record(out, *ask.proposal);
}

void put(ByteWriter& out, const ViewAnswer& answer) {
  out.put(static_cast<uint8_t>(Kind::answer));
  out.put(answer.ballot);
  out.put(answer.round);
  out.put(static_cast<uint8_t>(answer.accepted ? 1 : 0));
  out.put(answer.held);
  out.put(answer.bound);
  out.put(answer.version);
  out.put(static_cast<uint8_t>(answer.record ? 1 : 0));
  if (answer.record) put_record(out, *answer.record);
}

void put(ByteWriter& out, const ViewCommit& commit) {
  out.put(static_cast<uint8_t>(Kind::commit));
  out.put(commit.ballot);
  put_record(out, commit.record);
}

Result<ViewMessage> get_ask(ByteReader& in, size_t hosts) {
  ViewAsk ask;
  ask.ballot = in.get<uint64_t>();
  ask.round = in.get<uint32_t>();
  const auto stage = in.get<uint8_t>();
  if (stage > static_cast<uint8_t>(ViewStage::release)) return refused("of an unknown stage");
  ask.stage = static_cast<ViewStage>(stage);
  ask.known = in.get<uint64_t>();
  if (ask.stage != ViewStage::propose) return ViewMessage(std::move(ask));
  Result<ViewRecord> record = get_record(in, hosts);
  if (!record.ok()) return record.status();
  ask.proposal = std::move(record).value();
  return ViewMessage(std::move(ask));
}

Result<ViewMessage> get_answer(ByteReader& in, size_t hosts) {
  ViewAnswer answer;
  answer.ballot = in.get<uint64_t>();
  answer.round = in.get<uint32_t>();
  const auto accepted = in.get<uint8_t>();
  answer.held = in.get<uint64_t>();
  answer.bound = in.get<uint64_t>();
  answer.version = in.get<uint64_t>();
  const auto has_record = in.get<uint8_t>();
  if (accepted > 1 || has_record > 1) return refused("with a flag that is neither 0 nor 1");
  answer.accepted = accepted == 1;
  if (has_record == 0) return ViewMessage(std::move(answer));
  Result<ViewRecord> record = get_record(in, hosts);
  if (!record.ok()) return record.status();
  answer.record = std::move(record).value();
  return ViewMessage(std::move(answer));
}

Result<ViewMessage> get_commit(ByteReader& in, size_t hosts) {
  ViewCommit commit;
  commit.ballot = in.get<uint64_t>();
  Result<ViewRecord> record = get_record(in, hosts);
  if (!record.ok()) return record.status();
  commit.record = std::move(record).value();
  return ViewMessage(std::move(commit));
}

Result<ViewMessage> get_message(ByteReader& in, size_t hosts) {
  switch (static_cast<Kind>(in.get<uint8_t>())) {
    case Kind::ask:
      return get_ask(in, hosts);
    case Kind::answer:
      return get_answer(in, hosts);
    case Kind::commit:
      return get_commit(in, hosts);
  }
  return refused("of an unknown kind");
}

}  // namespace

std::vector<std::byte> encode(const ViewMessage& message) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  std::visit([&out](const auto& each) { put(out, each); }, message);
  return bytes;
}

Result<ViewMessage> decode_view_message(std::span<const std::byte> bytes, size_t hosts) {
  ByteReader in(bytes);
  Result<ViewMessage> message = get_message(in, hosts);
  if (!message.ok()) return message;
  if (in.bad()) return refused("is truncated");
  if (in.remaining() > 0) return refused("has surplus bytes");
  return message;
}

}  // namespace r2ccl

// What `r2ccl status` asks a communicator for: its socket, the survey of the other ranks, and what
// this rank says when another asks it. docs/status.md describes the texts.
#include <algorithm>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"
#include "runtime/admin/ask_by_notice.h"
#include "runtime/communicator.h"
#include "runtime/link/notice.h"

#include <unistd.h>

namespace r2ccl {
namespace {

constexpr size_t kVerdictsTold = 10;

// Of public values that all ranks have alike: the listeners' ports make it differ between the
// communicators of the same processes.
uint64_t make_comm_id(const JobIdentity& job, const std::vector<RankCard>& cards) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put_bytes(job.id);
  out.put(job.epoch);
  for (const RankCard& card : cards) {
    out.put_bytes(card.host);
    out.put(card.pid);
    for (const Endpoint& endpoint : card.control) out.put(endpoint.port);
    for (const NicCard& nic : card.nics) out.put(nic.port);
  }
  const crypto::Hash hash = crypto::hash("r2ccl communicator id", input);
  return ByteReader(hash).get<uint64_t>();
}

void add_path(RankSummary::Line& line, const Path& path) {
  line.sent += path.total_bytes_sent();
  line.received += path.total_bytes_received();
  if (path.at_rest()) {
    ++line.paths_drained;
    return;
  }
  const TimeNs base = path.model.base_delay();
  const TimeNs delay = (base != 0 ? base : path.health.round_trip) / kMicrosecond;
  switch (path.state.phase()) {
    case PathPhase::up:
      ++line.paths_up;
      if (delay > 0 && (line.delay_us == 0 || delay < line.delay_us)) {
        line.delay_us = static_cast<uint32_t>(std::min<TimeNs>(delay, UINT32_MAX));
      }
      break;
    case PathPhase::suspect:
      ++line.paths_suspect;
      break;
    case PathPhase::proving:
      ++line.paths_proving;
      break;
    case PathPhase::down:
      ++line.paths_down;
      break;
  }
}

RankSummary::Trouble trouble_of(const Link& link, const Path& path, TimeNs started, TimeNs now) {
  const Path::History& history = path.history;
  const bool connected = path.state.connected();
  const TimeNs down_at = history.downs > 0 ? history.down_at : started;
  RankSummary::Trouble trouble;
  trouble.peer = link.peer();
  trouble.nic = path.spec.local_nic;
  trouble.peer_nic = path.spec.remote_nic;
  trouble.phase = path.state.phase();
  trouble.cause = history.cause;
  trouble.peer_cause = history.peer_cause;
  trouble.dials = link.opens_paths();
  // What is being proved has not come back yet.
  const bool since_down = path.state.phase() != PathPhase::suspect;
  trouble.since_ms = bounded_ms(now - (since_down ? down_at : path.state.since()));
  trouble.next_attempt_ms = connected ? 0 : bounded_ms(path.returns.next_attempt() - now);
  trouble.penalty_milli = static_cast<uint32_t>(std::min(1e9, path.returns.penalty_at(now) * 1e3));
  trouble.returns = static_cast<uint32_t>(std::min<uint64_t>(history.returns, UINT32_MAX));
  return trouble;
}

}  // namespace

// Whatever is in the way of the socket must not be in the way of the job.
void Communicator::open_status() {
  comm_id_ = make_comm_id(options_.job, engine_->cards());
  status_server_ =
      std::make_unique<StatusServer>(static_cast<StatusSource&>(*this), engine_->reactor(), clock_);
  if (!options_.config.status) return;
  const StatusName name{static_cast<uint32_t>(getpid()), comm_id_, options_.self};
  auto socket = StatusSocket::open(status_directory(options_.config.runtime_dir, geteuid()), name);
  const Status opened =
      socket.ok() ? status_server_->open(std::move(socket).value()) : socket.status();
  if (opened.ok()) return;
  R2CCL_LOG(warn,
            "`r2ccl status` will not find %s, which runs on: %s; R2CCL_STATUS=0 says not to try",
            who(options_.self).c_str(), opened.message().c_str());
}

// The survey first: whoever waits for it is answered in the same pass.
void Communicator::progress_status() {
  survey_.progress(clock_.now());
  drains_->progress();
  status_server_->progress();
}

RankSummary Communicator::summarize() {
  const TimeNs now = clock_.now();
  RankSummary summary;
  summary.uptime_ms = static_cast<uint64_t>((now - started_at_) / kMillisecond);
  summary.operations = operations_;
  summary.verdicts = static_cast<uint32_t>(incidents_->verdicts().size());
  summary.error = failure().message();
  add_waits(summary);
  for (size_t i = 0; i < engine_->data_nics().size(); ++i) {
    const Nic& nic = engine_->data_nics()[i];
    RankSummary::Line& line = summary.nics.emplace_back();
    line.nic = NicId(static_cast<uint16_t>(i));
    line.up = nic.up && nic.carrier;
    line.drained = engine_->drained().contains(line.nic);
  }
  RankSummary::Line loopback{.nic = kNoNic};
  std::vector<LossCount> losses(summary.nics.size());
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_->link(Rank(peer));
    if (link == nullptr) continue;
    summary.mirrored += link->mirrored_bytes();
    summary.replayed += link->replayed_bytes();
    for (const auto& path : link->paths()) {
      if (path->spec.lane_only) continue;
      const NicId nic = path->spec.local_nic;
      add_path(nic == kNoNic ? loopback : summary.nics[nic.value()], *path);
      if (nic != kNoNic) losses[nic.value()] += path->losses().count(now);
      // What an operator took away is missed by nobody.
      if (path->state.usable() || path->drained || link->peer_ended()) continue;
      summary.troubles.push_back(trouble_of(*link, *path, started_at_, now));
    }
  }
  for (size_t i = 0; i < losses.size(); ++i) summary.nics[i].loss_ppm = losses[i].ppm();
  const bool has_loopback =
      loopback.paths_up + loopback.paths_suspect + loopback.paths_proving + loopback.paths_down > 0;
  if (has_loopback) summary.nics.push_back(loopback);
  return summary;
}

std::string Communicator::member_text(Rank rank, Presence presence,
                                      const RankSummary* summary) const {
  return member_json(engine_->cards(), rank, incidents_->hosts()[incidents_->host_of(rank)],
                     presence, summary);
}

Presence Communicator::ask(Rank rank, uint32_t number) {
  std::vector<std::byte> body;
  ByteWriter(body).put(number);
  return ask_by_notice(*engine_->link(rank), make_notice(NoticeKind::status_request, body));
}

void Communicator::on_status_request(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const auto number = in.get<uint32_t>();
  Link* link = engine_->link(peer);
  if (in.bad()) return;
  std::vector<std::byte> answer;
  ByteWriter out(answer);
  out.put(number);
  out.put_bytes(encode(summarize()));
  link->send_notice(make_notice(NoticeKind::status, answer));
}

void Communicator::on_status(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const auto number = in.get<uint32_t>();
  if (in.bad() || !survey_.expects(peer, number)) return;
  const auto summary = decode_rank_summary(in.get_bytes(in.remaining()));
  if (!summary.ok()) return;
  survey_.on_answer(peer, number, member_text(peer, Presence::answered, &summary.value()));
}

std::string Communicator::status_report() {
  JsonWriter out;
  write_report(out);
  return out.text();
}

std::optional<std::string> Communicator::job_status() {
  const TimeNs now = clock_.now();
  // One that nobody has fetched in time says how things were.
  const bool fresh = now - survey_.ended_at() < limits::kStatusFreshness;
  if (!fresh && !survey_.running()) {
    const RankSummary own = summarize();
    survey_.start(now, member_text(options_.self, Presence::answered, &own));
  }
  if (survey_.running()) return std::nullopt;
  JsonWriter out;
  out.begin_object();
  write_identity(out);
  out.key("members").begin_array();
  for (size_t i = 0; i < survey_.members().size(); ++i) {
    const JobSurvey::Member& member = survey_.members()[i];
    const Rank rank(static_cast<int32_t>(i));
    out.json(member.presence == Presence::answered ? member.answer
                                                   : member_text(rank, member.presence, nullptr));
  }
  out.end_array();
  out.field("verdict_count", uint64_t{incidents_->verdicts().size()});
  write_verdicts(out, kVerdictsTold);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl

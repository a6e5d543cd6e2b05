// The report by which a rank tells the localising rank how many packets its paths lost.
#include <algorithm>

#include "protocol/diagnosis/loss_localiser.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

std::vector<std::byte> encode(const LossReport& report) {
  std::vector<const LossSample*> samples;
  for (const LossSample& sample : report.samples) samples.push_back(&sample);
  if (samples.size() > kLossSamplesMax) {
    std::ranges::stable_sort(samples, [](const LossSample* a, const LossSample* b) {
      return std::pair(a->count.lost, a->count.sent) > std::pair(b->count.lost, b->count.sent);
    });
    samples.resize(kLossSamplesMax);
  }
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint32_t>(report.observer.value()));
  out.put(static_cast<uint64_t>(report.wall));
  out.put(static_cast<uint8_t>(samples.size()));
  for (const LossSample* sample : samples) {
    put_name(out, sample->near);
    put_name(out, sample->far);
    out.put(sample->count.sent);
    out.put(sample->count.lost);
    out.put(sample->count.periods);
    out.put(sample->count.lossy);
  }
  return bytes;
}

Result<LossReport> decode_loss_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  LossReport report;
  report.observer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  report.wall = static_cast<TimeNs>(in.get<uint64_t>());
  const size_t count = in.get<uint8_t>();
  if (count > kLossSamplesMax) return Status(Code::remote, "a report of losses of too many paths");
  for (size_t i = 0; i < count && !in.bad(); ++i) {
    LossSample sample;
    sample.near = get_name(in);
    sample.far = get_name(in);
    sample.count.sent = in.get<uint32_t>();
    sample.count.lost = in.get<uint32_t>();
    sample.count.periods = in.get<uint32_t>();
    sample.count.lossy = in.get<uint32_t>();
    report.samples.push_back(std::move(sample));
  }
  if (in.bad()) return Status(Code::remote, "a truncated report of losses");
  return report;
}

}  // namespace r2ccl

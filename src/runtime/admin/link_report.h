// The JSON of a NIC, a path and a verdict in a report. docs/report.md describes the fields.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/json_writer.h"
#include "runtime/admin/link_health.h"
#include "transport/transport.h"

namespace r2ccl {

// Returns a time of the wall clock as UTC.
std::string utc_text(TimeNs wall);

// Writes an object. `sent` and `received`: over all paths of the NIC.
void write_nic(JsonWriter& out, const Nic& nic, bool drained, uint64_t sent, uint64_t received);
// These write fields into an object that has begun. `info`: of this path.
void write_verdict(JsonWriter& out, const VerdictInfo& verdict);
void write_path(JsonWriter& out, const PathInfo& info, const Link& link, const Path& path,
                const Clock& clock);

}  // namespace r2ccl

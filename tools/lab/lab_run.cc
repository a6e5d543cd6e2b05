#include "tools/lab/lab_run.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace r2ccl::tools {
namespace {

Status exec_program(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return system_error("cannot run " + argv[0], errno);
}

int report_in_child(const Status& status) {
  std::fprintf(stderr, "r2ccl lab: %s\n", status.message().c_str());
  return 127;
}

}  // namespace

void set_rank_environment(const RankPlace& place) {
  auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(place.host * place.procs_per_host + place.local));
  set("WORLD_SIZE", std::to_string(place.hosts * place.procs_per_host));
  set("LOCAL_RANK", std::to_string(place.local));
  set("LOCAL_WORLD_SIZE", std::to_string(place.procs_per_host));
  set("MASTER_ADDR", place.master_addr);
  set("MASTER_PORT", std::to_string(place.master_port));
}

int run_rank_in_lab(const Lab& lab, const RankPlace& place, const std::function<int()>& body) {
  Status status = lab.enter(place.host);
  if (!status.ok()) return report_in_child(status);
  set_rank_environment(place);
  setenv("HOST", ("h" + std::to_string(place.host)).c_str(), 1);
  return body();
}

Status run_on_host(const Lab& lab, int host, const std::vector<std::string>& argv) {
  R2CCL_RETURN_IF_ERROR(lab.enter(host));
  setenv("HOST", ("h" + std::to_string(host)).c_str(), 1);
  return exec_program(argv);
}

Result<int> run_on_all(const Lab& lab, const LabJob& job) {
  RankGroup ranks;
  Status status;
  RankPlace place{0, lab.spec().host_count(), 0, job.procs_per_host, "h0", job.master_port};
  for (; status.ok() && place.host < place.hosts; ++place.host) {
    for (place.local = 0; status.ok() && place.local < place.procs_per_host; ++place.local) {
      std::string prefix;
      if (job.prefix_lines) {
        prefix = "h" + std::to_string(place.host);
        if (place.procs_per_host > 1) prefix += "." + std::to_string(place.local);
      }
      status = ranks.start(prefix, [&] {
        return run_rank_in_lab(lab, place, [&] { return report_in_child(exec_program(job.argv)); });
      });
    }
  }
  if (!status.ok()) ranks.signal_all(SIGTERM);
  int worst = ranks.attend();
  if (!status.ok()) return status;
  return worst;
}

}  // namespace r2ccl::tools

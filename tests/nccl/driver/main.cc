// A rank of a job on stock NCCL. Prints a line for each failed check and, last, the numbers of
// checks. The exit code is 0 if all passed, 1 if one failed, and 2 if the rank could not go on.
//
// usage: nccl_driver TEST --rank R --ranks N --folder DIR [--patience SECONDS] [--bytes B]
//                    [--seconds S] [--iterations N] [--communicators N] [--stall-ms MS]
//                    [--largest COUNT] [--cycles N]
// The tests: collectives, splits, cycles, abort, leave, loop.
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>
#include <map>

#include "job.h"

namespace driver {
namespace {

using Test = void (*)(const Job&, Checks&);

const std::map<std::string, Test> kTests = {
    {"collectives", test_collectives},
    {"splits", test_splits},
    {"cycles", test_cycles},
    {"abort", test_abort},
    {"leave", test_leave},
    {"loop", test_loop},
};

Job read_command_line(const std::vector<std::string>& words) {
  Job job;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string& name = words[i];
    const std::string& text = words[i + 1];
    if (name == "--rank") {
      job.rank = std::stoi(text);
    } else if (name == "--ranks") {
      job.ranks = std::stoi(text);
    } else if (name == "--folder") {
      job.folder = text;
    } else if (name == "--patience") {
      job.patience = std::chrono::seconds(std::stoi(text));
    } else if (name == "--bytes") {
      job.bytes = std::stoul(text);
    } else if (name == "--seconds") {
      job.seconds = std::stod(text);
    } else if (name == "--iterations") {
      job.iterations = std::stoi(text);
    } else if (name == "--stall-ms") {
      job.stall_ms = std::stod(text);
    } else if (name == "--communicators") {
      job.communicators = std::max(std::stoi(text), 1);
    } else if (name == "--largest") {
      job.largest_count = std::stoul(text);
    } else if (name == "--cycles") {
      job.cycles = std::stoi(text);
    } else {
      throw Broken("there is no option " + name);
    }
  }
  if (job.folder.empty()) throw Broken("--folder is missing");
  return job;
}

int run(const std::vector<std::string>& words) {
  const auto test = words.empty() ? kTests.end() : kTests.find(words[0]);
  if (test == kTests.end()) throw Broken("the first argument is no test");
  const Job job = read_command_line({words.begin() + 1, words.end()});
  Checks checks(job);
  test->second(job, checks);
  std::printf("rank %d: %d checks, %d failed\n", job.rank, checks.made(), checks.failed());
  return checks.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace driver

int main(int argc, char** argv) {
  // A rank does not outlive the runner that waits for it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return driver::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::printf("FAIL: %s\n", error.what());
    std::fflush(stdout);
    // NCCL's threads may wait for ever for the other ranks, so no destructor may run.
    std::_Exit(2);
  }
}

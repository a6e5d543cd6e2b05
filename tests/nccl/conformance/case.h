// A case: the work of two processes with the plugin at the same time. Each case has processes of
// its own, which have not loaded the plugin before.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "conformance/plugin.h"

namespace conformance {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void check(bool holds, const char* text, const char* file, int line);
#define CONFORMANCE_CHECK(condition) \
  conformance::check(static_cast<bool>(condition), #condition, __FILE__, __LINE__)

// Checks that the call has succeeded.
void succeed(Outcome outcome, const char* call);

// One of the two processes of a case, with a channel to the other one.
class Side {
 public:
  Side(int number, int channel) : number_(number), channel_(channel) {}

  bool first() const { return number_ == 0; }
  // Sends bytes to the other process, and returns those that it sends.
  std::vector<std::byte> exchange(std::span<const std::byte> mine);
  // The other process's id.
  pid_t other();
  // Returns when the other process is here, too.
  void meet();
  // The other process ends without a word in place of the next meet().
  void expect_end();
  // Ends this process at once, as a crash does.
  [[noreturn]] static void vanish();

 private:
  const int number_;
  const int channel_;
};

struct Settings {
  std::string plugin;   // the path of the library
  std::string library;  // the path of libr2ccl.so
  int version = 0;
};

// Where a case runs. All tables have one core, and the core two transports.
enum class Runs {
  on_each_table,
  on_each_table_and_transport,  // over TCP on the newest table
  on_core,                      // on the oldest table and, over both transports, on the newest
};

struct Case {
  const char* name;
  std::function<void(Side&, const Settings&)> run;
  // Beside those that all cases have.
  std::vector<std::pair<const char*, const char*>> environment = {};
  Runs runs = Runs::on_each_table;
};

// Each file of cases has one.
std::vector<Case> connecting_cases();
std::vector<Case> message_cases();
std::vector<Case> group_cases();
std::vector<Case> closing_cases();
std::vector<Case> process_cases();
std::vector<Case> beginning_cases();

}  // namespace conformance

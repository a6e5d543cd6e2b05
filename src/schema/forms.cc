#include "schema/forms.h"

#include <cstdio>
#include <ctime>

namespace r2ccl::schema {

std::string utc_text(TimeNs wall) {
  const time_t seconds = wall / kSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date,
                static_cast<int>(wall % kSecond / kMillisecond));
  return text;
}

std::string utc_if_ever(TimeNs wall) {
  return wall < 0 ? std::string() : utc_text(wall);
}

}  // namespace r2ccl::schema

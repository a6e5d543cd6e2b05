#include "runtime/bootstrap/process_handle.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace r2ccl {
namespace {

std::string handle_of(const std::string& host, const std::string& pid, char digit,
                      size_t digits = 64) {
  return "r2ccl1:" + host + ':' + pid + ':' + std::string(digits, digit);
}

Result<int> find(const std::vector<std::string>& handles) {
  const std::vector<std::string_view> views(handles.begin(), handles.end());
  return find_own_handle(views);
}

TEST(ProcessHandle, NamesThisProcessAndHasItsKey) {
  const std::string handle = process_handle();
  EXPECT_EQ(handle, process_handle());
  EXPECT_LE(handle.size(), kProcessHandleMax);
  EXPECT_NE(handle.find(':' + std::to_string(getpid()) + ':'), std::string::npos) << handle;
  EXPECT_EQ(key_of_handle(handle), process_key().public_key());
}

TEST(ProcessHandle, OfAForkedChildIsAnother) {
  const std::string parents = process_handle();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = process_handle();
    (void)!write(ends[1], own.data(), own.size());
    _exit(0);
  }
  close(ends[1]);
  char text[kProcessHandleMax] = "";
  const ssize_t bytes = read(ends[0], text, sizeof text);
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_GT(bytes, 0);
  const auto key = key_of_handle({text, static_cast<size_t>(bytes)});
  ASSERT_TRUE(key.has_value());
  EXPECT_NE(key, process_key().public_key());
  EXPECT_EQ(process_handle(), parents);
}

TEST(ProcessHandle, RefusesOtherTexts) {
  EXPECT_TRUE(key_of_handle(handle_of("a.b-c_1", "1", 'f')));
  const std::vector<std::string> bad = {
      "",
      "r2ccl1:",
      "r2ccl1::",
      "r2ccl1:::",
      "gloo:1",
      handle_of("", "1", 'f'),
      handle_of("a", "", 'f'),
      handle_of("a", "0", 'f'),
      handle_of("a", "-1", 'f'),
      handle_of("a", "1x", 'f'),
      handle_of("a", "99999999999", 'f'),
      handle_of("a b", "1", 'f'),
      handle_of("a\n", "1", 'f'),
      handle_of("a", "1", 'g'),
      handle_of("a", "1", 'f', 63),
      handle_of("a", "1", 'f', 65),
      handle_of(std::string(90, 'a'), "1", 'f'),
      "x" + handle_of("a", "1", 'f'),
      handle_of("a", "1", 'f') + ":",
  };
  for (const std::string& text : bad) EXPECT_FALSE(key_of_handle(text)) << text;
}

TEST(ProcessHandle, FindsItsPlaceAndNamesWhatIsWrongWithAList) {
  const std::string own = process_handle();
  const std::string other = handle_of("a", "1", '1');
  EXPECT_EQ(find({other, own}).value(), 1);
  EXPECT_EQ(find({own}).value(), 0);
  EXPECT_NE(find({other}).status().message().find("is not in the list of 1"), std::string::npos);
  EXPECT_NE(find({own, "x\x1b"}).status().message().find("\"x?\" is no handle"), std::string::npos);
  EXPECT_NE(find({other, own, handle_of("b", "2", '1')}).status().message().find("two handles"),
            std::string::npos);
  EXPECT_EQ(find({}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace r2ccl

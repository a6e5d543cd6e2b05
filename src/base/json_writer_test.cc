#include "base/json_writer.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

std::string quoted(std::string_view text) {
  JsonWriter out;
  out.value(text);
  return out.text();
}

TEST(JsonWriter, EscapesCharactersThatJsonDoesNotAllow) {
  EXPECT_EQ(quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("\n\x1b\x7f"), R"("\u000a\u001b\u007f")");
}

TEST(JsonWriter, KeepsCharactersThatAreWhole) {
  for (const char* text : {"\u00e9", "\u20ac", "\U0001f600", "\ue000", "\U0010ffff"}) {
    EXPECT_EQ(quoted(text), "\"" + std::string(text) + "\"");
  }
}

TEST(JsonWriter, ReplacesBytesThatAreNoCharacter) {
  // In turn: a lone byte, a truncated character, an overlong form, a surrogate, a value beyond the
  // last character.
  EXPECT_EQ(quoted("\xff"), R"("\ufffd")");
  EXPECT_EQ(quoted("\x80z"), R"("\ufffdz")");
  EXPECT_EQ(quoted("a\xe2\x82"), R"("a\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xc0\xaf"), R"("\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xe0\x80\x80"), R"("\ufffd\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xc3z"), R"("\ufffdz")");
}

TEST(JsonWriter, InsertsTextThatIsJsonAlready) {
  JsonWriter out;
  out.begin_array().json("{\"a\":1}").value(2).end_array();
  EXPECT_EQ(out.text(), R"([{"a":1},2])");
}

}  // namespace
}  // namespace r2ccl

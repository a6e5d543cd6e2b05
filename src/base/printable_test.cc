#include "base/printable.h"

#include <gtest/gtest.h>

#include <random>

namespace r2ccl {
namespace {

constexpr size_t kPlenty = 1000;

TEST(Printable, LeavesTextInAnyLanguageAlone) {
  for (const std::string text :
       {"", "nic0 of h1 (3 %)", "Gerät é", "サーバー", "\U0001f680", "\u00a0\u00ff", "?"}) {
    EXPECT_EQ(printable_text(text, kPlenty), text);
    EXPECT_TRUE(is_printable(text)) << text;
  }
}

TEST(Printable, ReplacesEveryControlCharacter) {
  for (int code = 0; code <= 0xff; ++code) {
    const bool ascii = code >= 0x20 && code < 0x7f;
    const std::string raw(1, static_cast<char>(code));
    EXPECT_EQ(printable_text(raw, kPlenty), ascii ? raw : "?") << code;
    EXPECT_EQ(is_printable(raw), ascii) << code;
    if (code < 0x80) continue;
    const std::string utf8 = {static_cast<char>(0xc0 | code >> 6),
                              static_cast<char>(0x80 | (code & 0x3f))};
    const bool shown = code >= 0xa0 && code != 0xad;
    EXPECT_EQ(printable_text(utf8, kPlenty), shown ? utf8 : "?") << code;
  }
  EXPECT_EQ(printable_text("\x1b[31mred\x1b[0m\nrank 0: ok\r", kPlenty),
            "?[31mred?[0m?rank 0: ok?");
  EXPECT_EQ(printable_text("\u009b31mred", kPlenty), "?31mred");
}

TEST(Printable, ReplacesCharactersThatReorderOrHideText) {
  for (const std::string hidden :
       {"\u200b", "\u200e", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2069",
        "\u2028", "\u2029", "\u061c", "\ufeff", "\U000e0041"}) {
    EXPECT_EQ(printable_text("a" + hidden + "b", kPlenty), "a?b");
    EXPECT_FALSE(is_printable("a" + hidden));
  }
}

TEST(Printable, ReplacesEachByteThatIsNotUtf8) {
  EXPECT_EQ(printable_text("\xff\xfe", kPlenty), "??");
  EXPECT_EQ(printable_text("a\xc3", kPlenty), "a?") << "cut short";
  EXPECT_EQ(printable_text("\xc0\x9b", kPlenty), "??") << "a form of ESC that is too long";
  EXPECT_EQ(printable_text("\xed\xa0\x80", kPlenty), "???") << "a surrogate";
  EXPECT_EQ(printable_text("\xf4\x90\x80\x80", kPlenty), "????") << "beyond the last character";
  EXPECT_EQ(printable_text("\xe2\x80", kPlenty), "??");
}

TEST(Printable, CutsBetweenCharactersAndSaysSo) {
  EXPECT_EQ(printable_text("abcdef", 6), "abcdef");
  EXPECT_EQ(printable_text("abcdefg", 6), "abc...");
  EXPECT_EQ(printable_text("ab\u00e9defg", 6), "ab...");
  EXPECT_EQ(printable_text("abcd", 3), "...");
}

TEST(Printable, IsBoundedAndStableForAnyText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 24, '\0');
    for (char& letter : text) {
      // Mostly bytes near the borders of UTF-8's forms.
      constexpr unsigned char kBorders[] = {0xc2, 0xe2, 0x80, 0x9b, 0xae, 0xf4, 0x1b, 'a'};
      letter = static_cast<char>(random() % 4 == 0 ? random() : kBorders[random() % 8]);
    }
    const size_t bound = 3 + random() % 24;
    const std::string once = printable_text(text, bound);
    EXPECT_LE(once.size(), std::min(bound, std::max<size_t>(text.size(), 3)));
    EXPECT_TRUE(is_printable(once));
    EXPECT_EQ(printable_text(once, bound), once);
    EXPECT_EQ(is_printable(text), printable_text(text, kPlenty) == text);
  }
}

}  // namespace
}  // namespace r2ccl

/* The masks of constraints: each permits the tokens that the matcher accepts, and every output is UTF-8. Skipped
 * without the grammar library (build/yoke-grammar, YOKE_GRAMMAR_LIBRARY). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu_pool.h"
#include "each_case.h"
#include "grammar/characters.h"
#include "unit/grammar_fixture.h"

/* The bytes that begin surrogates, overlong forms and code points past U+10FFFF. Ids: 0 a, 1 ED, 2 9F, 3 A0, 4 80,
 * 5 E0, 6 97, 8 F0, 9 8F, 10 F4, 11 90; 7 is special. */
static const char BYTES[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"\\u00ed\": 1, \"\\u0141\": 2, \"\\u0142\": 3, "
    "\"\\u0122\": 4, \"\\u00e0\": 5, \"\\u0139\": 6, \"<end>\": 7, \"\\u00f0\": 8, \"\\u0131\": 9, \"\\u00f4\": 10, "
    "\"\\u0132\": 11}, \"merges\": []}, \"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": {\"type\": "
    "\"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 7, \"content\": \"<end>\", \"special\": "
    "true}]}";

/* Tokens that end with the first byte of a character. Ids: 0 -, 1 1, 2 "-" E0, 3 "-" F0, 4 "-" E1, 5 x, 6 "x" E0,
 * 7 is special, 8 "x" F0, 9 "x" E1. */
static const char BEGINNINGS[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"-\": 0, \"1\": 1, \"-\\u00e0\": 2, \"-\\u00f0\": 3, "
    "\"-\\u00e1\": 4, \"x\": 5, \"x\\u00e0\": 6, \"<end>\": 7, \"x\\u00f0\": 8, \"x\\u00e1\": 9}, \"merges\": []}, "
    "\"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
    "false}, \"added_tokens\": [{\"id\": 7, \"content\": \"<end>\", \"special\": true}]}";

/* The euro sign is two tokens, each a part of a character; an end is possible only where the constraint permits it. */
static void test_masks(void **state)
{
  static const int32_t end = END;
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  yk_matcher *matcher = match(&f, YK_CONSTRAINT_REGEX, "(\xe2\x82\xac|b) ?a", &end, 1);
  assert_int_equal(mask_of(matcher), BIT(1) | BIT(3));
  assert_false(yk_matcher_accept(matcher, 0));
  assert_true(yk_matcher_accept(matcher, 3));
  assert_int_equal(mask_of(matcher), BIT(4));
  assert_true(yk_matcher_accept(matcher, 4));
  assert_int_equal(mask_of(matcher), BIT(0) | BIT(2));
  assert_true(yk_matcher_accept(matcher, 2));
  assert_int_equal(mask_of(matcher), BIT(END));
  assert_true(yk_matcher_accept(matcher, END));
  assert_true(yk_matcher_has_ended(matcher));
  yk_matcher_free(matcher);
  matcher = match(&f, YK_CONSTRAINT_GRAMMAR, "root ::= [a-z<>]*", &end, 1);
  assert_int_equal(mask_of(matcher), BIT(0) | BIT(1) | BIT(9) | BIT(END)); /* no special token, no unused id */
  yk_matcher_free(matcher);
  matcher = match(&f, YK_CONSTRAINT_GRAMMAR, "root ::= [^b]*", &end, 1);
  assert_int_equal(mask_of(matcher) & (BIT(0) | BIT(8) | BIT(11)), BIT(0)); /* any text has none either */
  yk_matcher_free(matcher);
  release(&f);
}

/* Whatever a constraint permits, an output is UTF-8. */
static void test_masks_of_parts_of_characters(void **state)
{
  static const struct {
    int32_t lead;
    uint32_t next; /* ids of bytes that may follow */
  } cases[] = {{1, BIT(2) | BIT(4) | BIT(6) | BIT(9) | BIT(11)},
               {5, BIT(3)},
               {8, BIT(2) | BIT(3) | BIT(6) | BIT(11)},
               {10, BIT(4) | BIT(9)}};
  static const char *const constraints[] = {"root ::= [^a]*", "root ::= [^a]{0,8}", "root ::= \"a\" | [^b]+"};
  static const int32_t end = END;
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of_tokenizer(BYTES, 20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof constraints / sizeof *constraints); i++) {
    yk_matcher *matcher = match(&f, YK_CONSTRAINT_GRAMMAR, constraints[i], &end, 1);
    for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
      yk_matcher_restart(matcher);
      assert_int_equal(mask_of(matcher) & ~(BIT(0) | BIT(END)), BIT(1) | BIT(5) | BIT(8) | BIT(10));
      assert_true(yk_matcher_accept(matcher, cases[j].lead));
      assert_int_equal(mask_of(matcher), cases[j].next);
      for (int32_t id = 0; id < N_IDS; id++)
        if (!(cases[j].next & BIT(id))) assert_false(yk_matcher_accept(matcher, id));
    }
    yk_matcher_free(matcher);
  }
  yk_matcher *matcher = match(&f, YK_CONSTRAINT_GRAMMAR, constraints[0], &end, 1);
  assert_false(yk_matcher_accept_text(matcher, "\xed\xa0", 2));
  assert_true(yk_matcher_accept_text(matcher, "\xed", 1));
  assert_int_equal(mask_of(matcher), cases[0].next);
  yk_matcher_free(matcher);
  release(&f);
}

enum { N_ENDS_TOKENS = 512 };

/* Each byte, alone and after 0x80. */
static void make_tokens_of_bytes(char bytes[3 * N_ENDS_TOKENS / 2], size_t ends[N_ENDS_TOKENS])
{
  size_t n = 0;
  for (int i = 0; i < N_ENDS_TOKENS; i++) {
    if (i >= 256) bytes[n++] = (char)0x80;
    bytes[n++] = (char)(i & 255);
    ends[i] = n;
  }
}

/* A token may follow an end if its bytes continue the character. */
static void check_end(const yk_cut_tokens *cut, const yk_token_bytes *tokens, yk_cut_character at)
{
  uint32_t words[N_ENDS_TOKENS / 32];
  memset(words, 0xff, sizeof words);
  yk_cut_tokens_exclude(cut, at, words);
  for (int32_t id = 0; id < N_ENDS_TOKENS; id++) {
    size_t n_bytes;
    const char *bytes = yk_token_bytes_of(tokens, id, &n_bytes);
    yk_cut_character after = at;
    assert_int_equal(words[id / 32] >> id % 32 & 1, yk_cut_character_extend(&after, bytes, n_bytes));
  }
}

/* Behind every beginning of a character. */
static void test_followers_of_every_end(void **state)
{
  char bytes[3 * N_ENDS_TOKENS / 2];
  size_t ends[N_ENDS_TOKENS];
  yk_cut_tokens cut;
  yk_err err = YK_ERR_INIT;
  (void)state;
  make_tokens_of_bytes(bytes, ends);
  const yk_token_bytes tokens = {.bytes = {.data = bytes}, .ends = ends, .n_ids = N_ENDS_TOKENS};
  assert_int_equal(yk_cut_tokens_create(&tokens, &cut, &err), YK_OK);
  check_end(&cut, &tokens, (yk_cut_character){0});
  for (int lead = 0x80; each_case((size_t)lead, lead < 256); lead++)
    for (int next = 0x80; next < 0xC0; next++) {
      const char text[] = {(char)lead, (char)next, (char)0x80};
      for (size_t n = 1; n <= sizeof text; n++) {
        yk_cut_character at = {0};
        if (yk_cut_character_extend(&at, text, n) && at.n_bytes == n) check_end(&cut, &tokens, at);
      }
    }
  yk_cut_tokens_free(&cut);
}

/* The library's mask permits "-" and E0 or F0 where a number begins, which its matcher refuses. */
static void test_masks_of_beginnings_of_characters(void **state)
{
  static const struct {
    yk_constraint_kind kind;
    const char *constraint;
    uint32_t ids;
  } cases[] = {{YK_CONSTRAINT_JSON_SCHEMA, "{\"type\": \"integer\"}", BIT(0) | BIT(1)},
               {YK_CONSTRAINT_GRAMMAR, "root ::= \"x\" [^a]", BIT(5) | BIT(6) | BIT(8) | BIT(9)},
               {YK_CONSTRAINT_GRAMMAR, "root ::= [x-] [\u0900-\u0fff]", BIT(0) | BIT(2) | BIT(5) | BIT(6)}};
  static const int32_t end = END;
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of_tokenizer(BEGINNINGS, 20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_matcher *matcher = match(&f, cases[i].kind, cases[i].constraint, &end, 1);
    for (int again = 0; again < 2; again++) assert_int_equal(mask_of(matcher), cases[i].ids);
    for (int32_t id = 0; id < 10; id++) {
      assert_int_equal(yk_matcher_accept(matcher, id), cases[i].ids >> id & 1);
      yk_matcher_restart(matcher);
    }
    yk_matcher_free(matcher);
  }
  release(&f);
}

enum { N_MATCHERS = 16 };

typedef struct many_masks {
  yk_matcher *matchers[N_MATCHERS];
  uint32_t masks[N_MATCHERS];
} many_masks;

static void fill_many(void *context, int thread, int64_t begin, int64_t end)
{
  many_masks *many = context;
  yk_err err = YK_ERR_INIT;
  (void)thread;
  for (int64_t i = begin; i < end; i++)
    if (yk_matcher_fill(many->matchers[i], &many->masks[i], &err) != YK_OK) many->masks[i] = 0;
}

/* Several threads fill masks of one constraint at the same time, as the engine does. */
static void test_masks_by_several_threads(void **state)
{
  static const int32_t end = END;
  (void)state;
  if (!has_library()) skip();
  yk_err err = YK_ERR_INIT;
  yk_cpu_pool *pool;
  many_masks many;
  fixture f = grammars_of_tokenizer(BEGINNINGS, 20, 1 << 20);
  assert_int_equal(yk_cpu_pool_create(4, &pool, &err), YK_OK);
  for (int i = 0; i < N_MATCHERS; i++)
    many.matchers[i] = match(&f, YK_CONSTRAINT_GRAMMAR, "root ::= ([x-] [^a1] | \"1\" [x-]){0,30}", &end, 1);
  for (int step = 0; each_case((size_t)step, step < 20); step++) {
    yk_cpu_pool_deal(pool, N_MATCHERS, 1, fill_many, &many);
    for (int i = 0; i < N_MATCHERS; i++) {
      assert_int_equal(many.masks[i], mask_of(many.matchers[i]));
      for (int32_t id = (step + i) % 10, tries = 0; tries < 10; tries++, id = (id + 1) % 10)
        if (id != END && many.masks[i] >> id & 1 && yk_matcher_accept(many.matchers[i], id)) break;
    }
  }
  for (int i = 0; i < N_MATCHERS; i++) yk_matcher_free(many.matchers[i]);
  yk_cpu_pool_destroy(pool);
  release(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_masks_of_parts_of_characters),
      cmocka_unit_test(test_followers_of_every_end),
      cmocka_unit_test(test_masks_of_beginnings_of_characters),
      cmocka_unit_test(test_masks_by_several_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

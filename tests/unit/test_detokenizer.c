/* Token by token: the pieces are whole characters, final, and together equal to decoding all at once. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "each_case.h"
#include "text/detokenizer.h"

#define GOLDENS YOKE_TESTS_DIR "/golden/tokenizer/"

static yk_tokenizer *load(const char *kind)
{
  char path[512];
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, "%s%.200s", GOLDENS, kind);
  if (yk_tokenizer_load(path, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

static yk_detokenizer *create(const yk_tokenizer *tokenizer, bool skip_special_tokens)
{
  yk_detokenizer *detokenizer;
  assert_int_equal(yk_detokenizer_create(tokenizer, skip_special_tokens, &detokenizer, NULL), YK_OK);
  return detokenizer;
}

/* Random ids. If byte tokens exist, most ids are byte tokens, so that sequences of bytes begin, break off and are
 * invalid. */
static void random_ids(const yk_tokenizer *tokenizer, uint32_t sequence, int32_t *ids, size_t n)
{
  int32_t size = yk_tokenizer_vocab_size(tokenizer), first_byte = yk_tokenizer_token_id(tokenizer, "<0x00>", 6);
  bool mostly_bytes = first_byte >= 0 && sequence % 2 == 0, mostly_low = first_byte < 0 && sequence % 2 == 0;
  for (size_t i = 0; i < n; i++) {
    float x = yk_rng_uniform(11, sequence, (uint32_t)(2 * i)),
          choice = yk_rng_uniform(11, sequence, (uint32_t)(2 * i + 1));
    if (mostly_bytes && choice < 0.9f && first_byte + 256 <= size)
      ids[i] = first_byte + (int32_t)(256 * x);
    else
      ids[i] = (int32_t)((float)(mostly_low && choice < 0.9f && size > 256 ? 256 : size) * x);
  }
}

static void check_sequence(const char *kind, const yk_tokenizer *tokenizer, yk_detokenizer *detokenizer, bool skip,
                           const int32_t *ids, size_t n)
{
  yk_strbuf whole = YK_STRBUF_INIT, pieces = YK_STRBUF_INIT, piece = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_decode(tokenizer, ids, n, skip, &whole, &err) != YK_OK) fail_msg("%s: %s", kind, err.message);
  for (size_t i = 0; i <= n; i++) {
    yk_strbuf_clear(&piece);
    yk_status status = i < n ? yk_detokenizer_push(detokenizer, ids[i], &piece, &err)
                             : yk_detokenizer_finish(detokenizer, &piece, &err);
    if (status != YK_OK) fail_msg("%s: %s", kind, err.message);
    if (piece.length && yk_utf8_valid_bytes(piece.data, piece.length) != piece.length)
      fail_msg("%s: token %zu of %zu gave part of a character", kind, i, n);
    yk_strbuf_append(&pieces, piece.data, piece.length);
  }
  if (whole.length != pieces.length || (whole.length && memcmp(whole.data, pieces.data, whole.length) != 0))
    fail_msg("%s: all at once gave \"%s\", one by one \"%s\"", kind, whole.data, pieces.data);
  yk_strbuf_free(&whole);
  yk_strbuf_free(&pieces);
  yk_strbuf_free(&piece);
}

static void check_kind(const char *kind)
{
  enum { N_SEQUENCES = 300, MAX_IDS = 40 };
  yk_tokenizer *tokenizer = load(kind);
  for (int skip = 0; skip < 2; skip++) {
    yk_detokenizer *detokenizer = create(tokenizer, skip); /* one for all: finish must leave no state */
    for (uint32_t sequence = 0; sequence < N_SEQUENCES; sequence++) {
      int32_t ids[MAX_IDS];
      size_t n = (size_t)(yk_rng_uniform(12, sequence, 0) * MAX_IDS);
      random_ids(tokenizer, sequence, ids, n);
      check_sequence(kind, tokenizer, detokenizer, skip, ids, n);
    }
    yk_detokenizer_free(detokenizer);
  }
  yk_tokenizer_free(tokenizer);
}

static void test_pieces_are_the_whole(void **state)
{
  (void)state;
  DIR *directory = opendir(GOLDENS);
  assert_non_null(directory);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(directory)); n++)
    if (entry->d_name[0] != '.') check_kind(entry->d_name);
  closedir(directory);
  assert_true(n > 10);
}

/* Push the token of that text and expect this output. */
static void push(const yk_tokenizer *tokenizer, yk_detokenizer *detokenizer, const char *token, const char *expected)
{
  yk_strbuf piece = YK_STRBUF_INIT;
  int32_t id = yk_tokenizer_token_id(tokenizer, token, strlen(token));
  if (id < 0) fail_msg("no token \"%s\"", token);
  assert_int_equal(yk_detokenizer_push(detokenizer, id, &piece, NULL), YK_OK);
  assert_string_equal(piece.data ? piece.data : "", expected);
  yk_strbuf_free(&piece);
}

static void finish(yk_detokenizer *detokenizer, const char *expected)
{
  yk_strbuf piece = YK_STRBUF_INIT;
  assert_int_equal(yk_detokenizer_finish(detokenizer, &piece, NULL), YK_OK);
  assert_string_equal(piece.data ? piece.data : "", expected);
  yk_strbuf_free(&piece);
}

static void test_byte_level_waits_for_whole_characters(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load("qwen3");
  yk_detokenizer *detokenizer = create(tokenizer, true);
  push(tokenizer, detokenizer, "a", "a");
  push(tokenizer, detokenizer, "\xC3\xA2", "");             /* 0xE2 */
  push(tokenizer, detokenizer, "\xC4\xA4", "");             /* 0x82 */
  push(tokenizer, detokenizer, "\xC2\xAC", "\xE2\x82\xAC"); /* 0xAC: the euro sign is complete */
  push(tokenizer, detokenizer, "\xC3\xA2", "");
  push(tokenizer, detokenizer, "<|im_end|>", ""); /* skipped: the character may still continue */
  push(tokenizer, detokenizer, "\xC4\xA4", "");
  push(tokenizer, detokenizer, "a",
       "\xEF\xBF\xBD"
       "a"); /* it did not */
  push(tokenizer, detokenizer, "\xC3\xA2", "");
  finish(detokenizer, "\xEF\xBF\xBD");
  push(tokenizer, detokenizer, "a", "a");
  finish(detokenizer, "");
  yk_detokenizer_free(detokenizer);
  yk_tokenizer_free(tokenizer);
}

static void test_byte_fallback_waits_for_the_end_of_the_run(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load("llama2");
  yk_detokenizer *detokenizer = create(tokenizer, true);
  push(tokenizer, detokenizer, "\xE2\x96\x81", ""); /* the space that begins a text is stripped */
  push(tokenizer, detokenizer, "\xE2\x96\x81", " ");
  push(tokenizer, detokenizer, "<0xE2>", "");
  push(tokenizer, detokenizer, "<0x82>", "");
  push(tokenizer, detokenizer, "<0xAC>", ""); /* complete, but one more bad byte would spoil it */
  push(tokenizer, detokenizer, "a",
       "\xE2\x82\xAC"
       "a");
  push(tokenizer, detokenizer, "<0xE2>", "");
  push(tokenizer, detokenizer, "<0x82>", "");
  push(tokenizer, detokenizer, "a",
       "\xEF\xBF\xBD\xEF\xBF\xBD"
       "a");
  push(tokenizer, detokenizer, "<0x41>", "");
  finish(detokenizer, "A");
  push(tokenizer, detokenizer, "\xE2\x96\x81", "");
  finish(detokenizer, "");
  yk_detokenizer_free(detokenizer);
  yk_tokenizer_free(tokenizer);
}

/* Tokens of a prompt, then tokens that continue it: the text of the latter alone. */
static void continues(const char *kind, const char *const *prompt, const char *const *tokens, const char *expected)
{
  enum { MAX_IDS = 32 };
  yk_tokenizer *tokenizer = load(kind);
  yk_detokenizer *detokenizer = create(tokenizer, true);
  yk_strbuf text = YK_STRBUF_INIT;
  int32_t ids[MAX_IDS];
  size_t n = 0;
  for (; prompt[n]; n++) ids[n] = yk_tokenizer_token_id(tokenizer, prompt[n], strlen(prompt[n]));
  assert_int_equal(yk_detokenizer_continue(detokenizer, ids, n, NULL), YK_OK);
  for (size_t i = 0; tokens[i]; i++) {
    int32_t id = yk_tokenizer_token_id(tokenizer, tokens[i], strlen(tokens[i]));
    assert_int_equal(yk_detokenizer_push(detokenizer, id, &text, NULL), YK_OK);
  }
  assert_int_equal(yk_detokenizer_finish(detokenizer, &text, NULL), YK_OK);
  if (strcmp(text.data ? text.data : "", expected) != 0)
    fail_msg("%s: expected \"%s\", found \"%s\"", kind, expected, text.data ? text.data : "");
  yk_strbuf_free(&text);
  yk_detokenizer_free(detokenizer);
  yk_tokenizer_free(tokenizer);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SPACE       "\xE2\x96\x81"

static void test_text_continues_a_prompt(void **state)
{
  (void)state;
  static const char *const kinds[] = {"llama2", "metaspace_always"};
  for (int i = 0; i < 2; i++) {
    continues(kinds[i], TOKENS("a"), TOKENS(SPACE, "a"), " a");
    continues(kinds[i], TOKENS("<s>", "a", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>"),
              TOKENS(SPACE, "a"), " a");
    continues(kinds[i], TOKENS("<s>"), TOKENS(SPACE, "a"), "a"); /* no text before */
  }
  continues("llama2", TOKENS("<0x0A>"), TOKENS(SPACE, "a"), " a");
  continues("llama2", TOKENS("a", "<0x0A>"), TOKENS("a"), "a"); /* the text of the prompt's run is not output again */
  continues("llama2", TOKENS("a", "<0x0A>"), TOKENS("<0x0A>", "a"), "\na");
  continues("llama2", TOKENS("a", "<0x0A>", "<0xC3>"), TOKENS("<0xA9>", "a"),
            "\xC3\xA9"
            "a");
  continues("llama2", TOKENS("<0xFF>", "<0x80>", "<0x80>", "<0x80>", "<0x80>"), TOKENS("a"), "a");
  continues("whitespace", TOKENS("a"), TOKENS("b"), " b");
  continues("qwen3", TOKENS("a", "\xC3\xA2"), TOKENS("\xC4\xA4", "\xC2\xAC"), "\xE2\x82\xAC");
  continues("qwen3", TOKENS("a"), TOKENS("b"), "b");
}

static void test_a_bad_id_changes_nothing(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load("qwen3");
  yk_detokenizer *detokenizer = create(tokenizer, false);
  yk_strbuf piece = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  push(tokenizer, detokenizer, "\xC3\xA2", "");
  push(tokenizer, detokenizer, "\xC4\xA4", "");
  assert_int_equal(yk_detokenizer_push(detokenizer, 1509, &piece, &err), YK_E_INVAL);
  assert_string_equal(err.message, "token id 1509 is outside the vocabulary of 1509");
  assert_int_equal(piece.length, 0);
  push(tokenizer, detokenizer, "\xC2\xAC", "\xE2\x82\xAC");
  finish(detokenizer, "");
  yk_strbuf_free(&piece);
  yk_detokenizer_free(detokenizer);
  yk_tokenizer_free(tokenizer);
}

/* Decoding again from the start at every token would be quadratic and exceed the test's time limit. */
static void test_many_tokens(void **state)
{
  enum { N_TOKENS = 300000 };
  static const char *const KINDS[] = {"qwen3", "llama2", "metaspace_always", "whitespace"};
  (void)state;
  for (size_t k = 0; each_case(k, k < sizeof KINDS / sizeof *KINDS); k++) {
    yk_tokenizer *tokenizer = load(KINDS[k]);
    yk_detokenizer *detokenizer = create(tokenizer, true);
    yk_strbuf text = YK_STRBUF_INIT;
    int32_t id = yk_tokenizer_token_id(tokenizer, "a", 1);
    for (int i = 0; i < N_TOKENS; i++) assert_int_equal(yk_detokenizer_push(detokenizer, id, &text, NULL), YK_OK);
    bool joined = strcmp(KINDS[k], "whitespace") == 0; /* the kind without a decoder */
    assert_int_equal(text.length, joined ? 2 * N_TOKENS - 1 : N_TOKENS);
    yk_strbuf_free(&text);
    yk_detokenizer_free(detokenizer);
    yk_tokenizer_free(tokenizer);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces_are_the_whole),
      cmocka_unit_test(test_byte_level_waits_for_whole_characters),
      cmocka_unit_test(test_byte_fallback_waits_for_the_end_of_the_run),
      cmocka_unit_test(test_text_continues_a_prompt),
      cmocka_unit_test(test_a_bad_id_changes_nothing),
      cmocka_unit_test(test_many_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

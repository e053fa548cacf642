/* Texts of tokens in their context, on a vocabulary whose tokens end inside characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "openai/token_walk.h"
#include "yoke/process.h"

#define MODEL YOKE_TESTS_DIR "/models/demo"

static int open_engine(void **state)
{
  yk_engine_options options = fixture_options("qwen3", 1);
  options.model_dir = MODEL;
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

/* The ids of a text. */
static size_t ids_of(yk_engine *engine, const char *text, int32_t **ids)
{
  size_t n_ids;
  assert_int_equal(yk_engine_tokenize(engine, text, strlen(text), false, ids, &n_ids, NULL), YK_OK);
  return n_ids;
}

/* Joined texts of tokens are the text, and no text holds part of a character, also after a prompt that ends inside a
 * character. A chosen token has the same text as in the list of another token's alternatives. */
static void joined_they_are_the_text(void **state)
{
  static const char text[] = "Hi \xF0\x9F\x8E\x89! \xE4\xBD\xA0\xE5\xA5\xBD. caf\xC3\xA9 \xE2\x82\xAC";
  int32_t *ids;
  size_t n_ids = ids_of(*state, text, &ids);
  yk_token_texts *texts;
  bool has_empty = false;
  assert_int_equal(yk_token_texts_create(*state, &texts, NULL), YK_OK);
  for (size_t n_prompt = 0; n_prompt < n_ids; n_prompt++) {
    yk_token_walk walk = {0};
    yk_strbuf joined = YK_STRBUF_INIT;
    assert_int_equal(yk_token_walk_begin(&walk, texts, ids, n_prompt, NULL), YK_OK);
    for (size_t i = n_prompt; i < n_ids; i++) {
      const char *piece, *other;
      size_t n_bytes, n_other;
      assert_int_equal(yk_token_walk_next(&walk, ids[i], &piece, &n_bytes, NULL), YK_OK);
      yk_strbuf_append(&joined, piece, n_bytes);
      has_empty |= n_bytes == 0;
      assert_null(n_bytes ? strstr(joined.data, "\xEF\xBF\xBD") : NULL);
      assert_int_equal(yk_token_walk_other(&walk, ids[i], &other, &n_other, NULL), YK_OK);
      assert_int_equal(n_other, n_bytes);
      assert_memory_equal(other, piece, n_bytes);
      assert_int_equal(yk_token_walk_other(&walk, ids[0], &other, &n_other, NULL), YK_OK);
      assert_true(n_other == 1 && other[0] == 'H');
    }
    size_t length = joined.length;
    assert_true(length <= strlen(text));
    assert_string_equal(joined.data, text + strlen(text) - length);
    yk_strbuf_free(&joined);
    yk_token_walk_free(&walk);
  }
  assert_true(has_empty); /* else this vocabulary is no test */
  yk_token_texts_free(texts);
  free(ids);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(joined_they_are_the_text)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, open_engine, close_engine);
}

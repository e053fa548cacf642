/* grammar_fixture.h - a small vocabulary, constraints of it and their matchers, for tests of grammar/. Include after
 * cmocka.h. */
#ifndef YK_TESTS_UNIT_GRAMMAR_FIXTURE_H
#define YK_TESTS_UNIT_GRAMMAR_FIXTURE_H

#include <string.h>

#include "grammar/grammars.h"
#include "grammar/library.h"

enum { END = 7, N_IDS = 12, N_WORDS = 1 };

/* Byte-level: ids 0 to 6 are text, 7 and 8 special, 9 and 10 added tokens with text, 11 only the model's. */
static const char BYTE_LEVEL[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"\\u0120a\": 2, \"\\u00e2\\u0124\": 3, "
    "\"\\u00ac\": 4, "
    "\"{\": 5, \"}\": 6}, \"merges\": []}, \"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": "
    "{\"type\": "
    "\"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 7, \"content\": \"<end>\", \"special\": "
    "true}, "
    "{\"id\": 8, \"content\": \"<pad>\", \"special\": true}, {\"id\": 9, \"content\": \"<t>\", \"special\": false}, "
    "{\"id\": 10, \"content\": \"}b\", \"special\": false}]}";

static inline yk_tokenizer *tokenizer_of(const char *json)
{
  yk_err err = YK_ERR_INIT;
  yk_tokenizer *tokenizer = NULL;
  if (yk_tokenizer_parse("tokenizer", json, strlen(json), &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

typedef struct fixture {
  yk_tokenizer *tokenizer;
  yk_grammars *grammars;
} fixture;

static inline fixture grammars_of_tokenizer(const char *json, double time_limit_s, int64_t cache_bytes)
{
  static const int32_t end = END;
  yk_err err = YK_ERR_INIT;
  fixture f = {.tokenizer = tokenizer_of(json)};
  const yk_grammars_options options = {.tokenizer = f.tokenizer,
                                       .n_ids = N_IDS,
                                       .end_ids = &end,
                                       .n_end_ids = 1,
                                       .python = "python3",
                                       .time_limit_s = time_limit_s,
                                       .memory_limit_bytes = 1 << 30,
                                       .cache_bytes = cache_bytes};
  assert_int_equal(yk_grammars_create(&options, &f.grammars, &err), YK_OK);
  return f;
}

static inline fixture grammars_of(double time_limit_s, int64_t cache_bytes)
{
  return grammars_of_tokenizer(BYTE_LEVEL, time_limit_s, cache_bytes);
}

static inline void release(fixture *f)
{
  yk_grammars_free(f->grammars);
  yk_tokenizer_free(f->tokenizer);
}

static inline bool has_library(void)
{
  yk_grammar_library *library;
  bool found = yk_grammar_library_load(NULL, &library, NULL) == YK_OK;
  yk_grammar_library_free(library);
  if (!found) print_message("skipped: no grammar library\n");
  return found;
}

static inline yk_matcher *match(const fixture *f, yk_constraint_kind kind, const char *text, const int32_t *ends,
                                size_t n)
{
  yk_err err = YK_ERR_INIT;
  yk_matcher *matcher;
  if (yk_grammars_match(f->grammars, kind, text, strlen(text), ends, n, &matcher, &err) != YK_OK)
    fail_msg("%s: %s", text, err.message);
  return matcher;
}

static inline uint32_t mask_of(yk_matcher *matcher)
{
  uint32_t words[N_WORDS];
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_matcher_fill(matcher, words, &err), YK_OK);
  return words[0];
}

#define BIT(id) (UINT32_C(1) << (id))

#endif

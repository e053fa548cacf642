/* Constraints of outputs: the bytes of each token, the grammar library, compiled constraints and their matchers. The
 * tests that need the library (build/yoke-grammar, YOKE_GRAMMAR_LIBRARY) are skipped without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "engine/constraint.h"
#include "grammar/grammars.h"
#include "grammar/library.h"
#include "kernels/device.h"
#include "text/token_bytes.h"
#include "unit/grammar_fixture.h"

/* As Llama 2: a word begins with U+2581, and the first space of a text is cut. */
static const char BYTE_FALLBACK[] =
    "{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"unk_token\": \"<unk>\", \"vocab\": {\"<unk>\": 0, "
    "\"<0xE2>\": 1, \"\\u2581a\": 2, \"<0x0A>\": 3}, \"merges\": []}, \"decoder\": {\"type\": \"Sequence\", "
    "\"decoders\": "
    "[{\"type\": \"Replace\", \"pattern\": {\"String\": \"\\u2581\"}, \"content\": \" \"}, {\"type\": "
    "\"ByteFallback\"}, "
    "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}}";

static void expect_bytes(const char *json, int32_t n_ids, const char *const *expected)
{
  yk_err err = YK_ERR_INIT;
  yk_token_bytes tokens;
  yk_tokenizer *tokenizer = tokenizer_of(json);
  assert_int_equal(yk_token_bytes_create(tokenizer, n_ids, &tokens, &err), YK_OK);
  for (int32_t id = 0; each_case((size_t)id, id < n_ids); id++) {
    size_t n_bytes;
    const char *bytes = yk_token_bytes_of(&tokens, id, &n_bytes);
    assert_int_equal(n_bytes, strlen(expected[id]));
    assert_memory_equal(bytes, expected[id], n_bytes);
  }
  yk_token_bytes_free(&tokens);
  yk_tokenizer_free(tokenizer);
}

static void test_bytes_of_tokens(void **state)
{
  (void)state;
  static const char *const byte_level[] = {"a", "b", " a", "\xe2\x82", "\xac", "{", "}", "", "", "<t>", "}b", ""};
  static const char *const fallback[] = {"<unk>", "\xe2", " a", "\n", ""};
  expect_bytes(BYTE_LEVEL, N_IDS, byte_level);
  expect_bytes(BYTE_FALLBACK, 5, fallback);
}

static void test_a_missing_library(void **state)
{
  yk_err err = YK_ERR_INIT;
  yk_grammar_library *library;
  (void)state;
  assert_int_equal(yk_grammar_library_load("/no/such/folder", &library, &err), YK_E_UNSUPPORTED);
  assert_null(library);
  assert_non_null(strstr(err.message, "/no/such/folder; install it by \"python3 -m pip install"));
}

/* A folder of files that are no libraries: empty, or only the first page of one. */
static void check_a_broken_library(size_t n_bytes)
{
  static char page[4096];
  static const char *const names[] = {"libtvm_ffi.so", "libxgrammar_bindings.so"};
  char folder[] = "/tmp/yoke-grammar-XXXXXX", path[128];
  yk_err err = YK_ERR_INIT;
  yk_grammar_library *library;
  FILE *program = fopen("/proc/self/exe", "r");
  assert_non_null(program);
  assert_int_equal(fread(page, 1, n_bytes, program), n_bytes);
  fclose(program);
  assert_non_null(mkdtemp(folder));
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(page, 1, n_bytes, file), n_bytes);
    fclose(file);
  }
  assert_int_equal(yk_grammar_library_load(folder, &library, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, names[0]));
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    remove(path);
  }
  remove(folder);
}

static void test_a_broken_library(void **state)
{
  (void)state;
  check_a_broken_library(0);
  check_a_broken_library(4096);
}

/* ---- With the library -------------------------------------------------------------------------------------------- */

static void test_without_end_ids(void **state)
{
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  yk_matcher *matcher = match(&f, YK_CONSTRAINT_CHOICE, "[\"ab\"]", NULL, 0);
  assert_true(yk_matcher_accept(matcher, 0));
  assert_false(yk_matcher_has_ended(matcher));
  assert_true(yk_matcher_accept(matcher, 1));
  assert_true(yk_matcher_has_ended(matcher));
  yk_matcher_free(matcher);
  release(&f);
}

static void test_other_end_ids(void **state)
{
  static const int32_t ends[] = {END, 8, 1}; /* the model's, a special token, and one that is text */
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  yk_matcher *matcher = match(&f, YK_CONSTRAINT_REGEX, "ab?", ends, 3);
  assert_int_equal(mask_of(matcher), BIT(0));
  assert_true(yk_matcher_accept(matcher, 0));
  assert_int_equal(mask_of(matcher), BIT(1) | BIT(END) | BIT(8));
  yk_matcher_free(matcher);
  release(&f);
}

/* A compilation past its limit ends the helper; the next one starts another. Without a budget every constraint is
 * compiled again, and matchers outlive their cache entry. */
static void test_limits(void **state)
{
  static const int32_t end = END;
  yk_err err = YK_ERR_INIT;
  yk_strbuf schema = YK_STRBUF_INIT;
  yk_matcher *refused;
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(0.3, 0);
  yk_strbuf_append_str(&schema, "{\"type\": \"object\", \"properties\": {");
  for (int i = 0; i < 20000; i++) yk_strbuf_append_fmt(&schema, "%s\"p%d\": {\"type\": \"string\"}", i ? ", " : "", i);
  yk_strbuf_append_str(&schema, "}}");
  assert_int_equal(
      yk_grammars_match(f.grammars, YK_CONSTRAINT_JSON_SCHEMA, schema.data, schema.length, NULL, 0, &refused, &err),
      YK_E_INVAL);
  assert_string_equal(err.message, "too complex: compiling takes longer than its limit of 0.3 s");
  yk_strbuf_free(&schema);
  release(&f);
  f = grammars_of(20, 0);
  yk_matcher *first = match(&f, YK_CONSTRAINT_REGEX, "a", &end, 1),
             *second = match(&f, YK_CONSTRAINT_REGEX, "b", &end, 1);
  assert_int_equal(mask_of(first), BIT(0));
  assert_int_equal(mask_of(second), BIT(1));
  yk_matcher_free(first);
  yk_matcher_free(second);
  release(&f);
}

/* ---- A request's constraint -------------------------------------------------------------------------------------- */

static yk_status init(yk_request_constraint *c, const fixture *f, const yk_sampling *s)
{
  static const int32_t ends[] = {END};
  const yk_constrained_model model = {f->grammars, f->tokenizer, "", N_IDS};
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_request_constraint_init(c, &model, s, ends, 1, &err);
  if (status != YK_OK) fail_msg("%s", err.message);
  return status;
}

static void test_a_request(void **state)
{
  static const int32_t ends[] = {END}, allowed[] = {1, 5}, drawn[] = {0, 0, 5};
  yk_request_constraint c;
  uint32_t words[N_WORDS];
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  yk_sampling s = {.constraint_kind = YK_CONSTRAINT_REGEX, .constraint = "a+b?", .constraint_bytes = 4};
  assert_int_equal(init(&c, &f, &s), YK_OK);
  yk_constrained_output output = {.ids = drawn, .n = 1, .end_ids = ends, .n_end_ids = 1};
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], BIT(0) | BIT(1) | BIT(END));
  output.n_unwanted = 1; /* ignore_eos or min_tokens */
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], BIT(0) | BIT(1));
  output.n = 3; /* catches up: a, then { which the constraint excludes */
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(c.error.code, YK_E_INTERNAL);
  assert_non_null(strstr(c.error.message, "output token 2 (id 5)"));
  yk_request_constraint_end(&c);
  s.allowed_ids = allowed;
  s.n_allowed_ids = 2;
  s.constraint = "b";
  s.constraint_bytes = 1;
  assert_int_equal(init(&c, &f, &s), YK_OK);
  output = (yk_constrained_output){.ids = allowed, .n = 0, .end_ids = ends, .n_end_ids = 1, .n_unwanted = 1};
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], BIT(1));
  output.n = 1; /* only the end may follow, wanted or not, allowed or not */
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], BIT(END));
  yk_request_constraint_end(&c);
  release(&f);
}

/* A constraint that no output satisfies is refused; one that only the empty output satisfies is not. */
static void test_a_beginning(void **state)
{
  yk_request_constraint c;
  yk_err err = YK_ERR_INIT;
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  const yk_constrained_model model = {f.grammars, f.tokenizer, "", N_IDS};
  static const char endless[] = "root ::= root \"a\"", empty[] = "root ::= \"\"";
  yk_sampling s = {
      .constraint_kind = YK_CONSTRAINT_GRAMMAR, .constraint = endless, .constraint_bytes = sizeof endless - 1};
  assert_int_equal(yk_request_constraint_init(&c, &model, &s, NULL, 0, &err), YK_E_INVAL);
  assert_string_equal(err.message, "constraint: no output satisfies the constraint");
  s.constraint = empty;
  s.constraint_bytes = sizeof empty - 1;
  for (size_t n_ends = 0; n_ends < 2; n_ends++) {
    assert_int_equal(yk_request_constraint_init(&c, &model, &s, (int32_t[]){END}, n_ends, &err), YK_OK);
    yk_request_constraint_end(&c);
  }
  release(&f);
}

/* More end ids than bits of a word: all of them stay out of the mask while another id may follow, none of them does if
 * nothing else may follow, and allowed ids forbid none. */
static void test_many_end_ids(void **state)
{
  enum { FIRST_STOP = 11, N_STOPS = 100, N_ENDS = N_STOPS + 1, N_MANY = FIRST_STOP + N_STOPS, N_MANY_WORDS = 4 };
  static const int32_t drawn[] = {0};
  int32_t ends[N_ENDS] = {END};
  uint32_t words[N_MANY_WORDS], all_ends[N_MANY_WORDS] = {BIT(END)};
  yk_err err = YK_ERR_INIT;
  yk_strbuf json = YK_STRBUF_INIT;
  (void)state;
  if (!has_library()) skip();
  yk_strbuf_append(&json, BYTE_LEVEL, strlen(BYTE_LEVEL) - 2);
  for (int32_t i = 1; i < N_ENDS; i++) {
    ends[i] = FIRST_STOP + i - 1;
    all_ends[ends[i] / 32] |= UINT32_C(1) << ends[i] % 32;
    yk_strbuf_append_fmt(&json, ", {\"id\": %d, \"content\": \"<%d>\", \"special\": true}", ends[i], ends[i]);
  }
  yk_strbuf_append_str(&json, "]}");
  fixture f = {.tokenizer = tokenizer_of(json.data)};
  yk_strbuf_free(&json);
  const yk_grammars_options options = {.tokenizer = f.tokenizer,
                                       .n_ids = N_MANY,
                                       .end_ids = ends,
                                       .n_end_ids = 1,
                                       .python = "python3",
                                       .time_limit_s = 20,
                                       .memory_limit_bytes = 1 << 30,
                                       .cache_bytes = 1 << 20};
  assert_int_equal(yk_grammars_create(&options, &f.grammars, &err), YK_OK);
  const yk_constrained_model model = {f.grammars, f.tokenizer, "", N_MANY};
  yk_constrained_output output = {.ids = drawn, .n = 1, .end_ids = ends, .n_end_ids = N_ENDS, .n_eos_ids = 1};
  for (int more_may_follow = 0; more_may_follow < 2; more_may_follow++) {
    yk_request_constraint c;
    const char *regex = more_may_follow ? "a+" : "a";
    yk_sampling s = {.constraint_kind = YK_CONSTRAINT_REGEX, .constraint = regex, .constraint_bytes = strlen(regex)};
    s.allowed_ids = drawn;
    s.n_allowed_ids = 1;
    assert_int_equal(yk_request_constraint_init(&c, &model, &s, ends, N_ENDS, &err), YK_OK);
    output.n_unwanted = 0;
    yk_request_constraint_fill(&c, &output, words, N_MANY_WORDS);
    assert_int_equal(words[0], all_ends[0] | (more_may_follow ? BIT(0) : 0));
    assert_memory_equal(words + 1, all_ends + 1, sizeof words - sizeof *words);
    output.n_unwanted = N_ENDS;
    yk_request_constraint_fill(&c, &output, words, N_MANY_WORDS);
    if (more_may_follow) memset(all_ends, 0, sizeof all_ends);
    assert_int_equal(words[0], more_may_follow ? BIT(0) : all_ends[0]);
    assert_memory_equal(words + 1, all_ends + 1, sizeof words - sizeof *words);
    yk_request_constraint_end(&c);
  }
  release(&f);
}

/* An ambiguous grammar, whose masks take longer with every token, ends with an error of the request. */
static void test_a_grammar_that_takes_too_long(void **state)
{
  enum { N = 2000 };
  static const char grammar[] = "root ::= s s s s\ns ::= s s | s s s | \"a\" | \"\"";
  static const int32_t ends[] = {END};
  static int32_t drawn[N]; /* "a" */
  yk_request_constraint c;
  uint32_t words[N_WORDS] = {0};
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  yk_sampling s = {
      .constraint_kind = YK_CONSTRAINT_GRAMMAR, .constraint = grammar, .constraint_bytes = sizeof grammar - 1};
  assert_int_equal(init(&c, &f, &s), YK_OK);
  for (int32_t n = 0; n < N && c.error.code == YK_OK; n++)
    yk_request_constraint_fill(&c, &(yk_constrained_output){.ids = drawn, .n = n, .end_ids = ends, .n_end_ids = 1},
                               words, N_WORDS);
  assert_int_equal(c.error.code, YK_E_INVAL);
  assert_non_null(strstr(c.error.message, "too complex"));
  assert_int_equal(words[0], UINT32_MAX);
  yk_request_constraint_end(&c);
  release(&f);
}

/* ---- Reasoning before the constrained part ----------------------------------------------------------------------- */

typedef struct mask_case {
  const char *constraint; /* a regular expression; NULL: none */
  const char *open, *close, *call;
  int32_t max_tokens, ids[8];
  int32_t n_ids;
  uint32_t masks[9]; /* after 0 .. n_ids tokens */
} mask_case;

#define ANY         UINT32_MAX
#define ANY_BUT_END (~BIT(END))

static void check_masks(const fixture *f, const mask_case *m)
{
  static const int32_t ends[] = {END};
  yk_request_constraint c;
  uint32_t words[N_WORDS];
  const yk_reasoning_tags tags = {m->open, m->close, m->call};
  const yk_sampling s = {.constraint_kind = m->constraint ? YK_CONSTRAINT_REGEX : YK_CONSTRAINT_NONE,
                         .constraint = m->constraint,
                         .constraint_bytes = m->constraint ? strlen(m->constraint) : 0,
                         .reasoning_tags = m->close ? &tags : NULL,
                         .reasoning_is_open = !m->open,
                         .max_reasoning_tokens = m->max_tokens};
  assert_int_equal(init(&c, f, &s), YK_OK);
  for (int32_t n = 0; n <= m->n_ids; n++) {
    yk_constrained_output output = {.ids = m->ids, .n = n, .end_ids = ends, .n_end_ids = 1, .n_eos_ids = 1};
    words[0] = ANY;
    if (yk_request_constraint_masks(&c, n)) yk_request_constraint_fill(&c, &output, words, N_WORDS);
    if (words[0] != m->masks[n]) fail_msg("behind %d tokens: expected %x, found %x", n, m->masks[n], words[0]);
  }
  assert_int_equal(c.error.code, YK_OK);
  yk_request_constraint_end(&c);
}

/* Tags of several tokens, cut anywhere; the close tag's first part may occur before. */
static void test_a_constraint_begins_behind_reasoning(void **state)
{
  static const mask_case rows[] = {
      {"ba",
       NULL,
       "<t>{",
       NULL,
       -1,
       {5, 9, 9, 5, 1},
       5,
       {ANY_BUT_END, ANY_BUT_END, ANY_BUT_END, ANY_BUT_END, BIT(1), BIT(0)}},
      /* The answer, or the open tag; then reasoning. */
      {"ba", "<t>", "}", NULL, -1, {1, 0}, 2, {BIT(1) | BIT(9), BIT(0), BIT(END)}},
      {"ba", "<t>", "}", NULL, -1, {9, 1, 6, 1}, 4, {BIT(1) | BIT(9), ANY_BUT_END, ANY_BUT_END, BIT(1), BIT(0)}},
      /* Both begin with the same tokens, so that the matcher restarts. */
      {"ba",
       "ba{",
       "}",
       NULL,
       -1,
       {1, 0, 5, 6, 1},
       5,
       {BIT(1), BIT(0), BIT(END) | BIT(5), ANY_BUT_END, BIT(1), BIT(0)}},
      {"bb", "ba{", "}", NULL, -1, {1, 0, 5, 6}, 4, {BIT(1), BIT(0) | BIT(1), BIT(5), ANY_BUT_END, BIT(1)}},
      /* A token of both the close tag and the answer. */
      {"ba", NULL, "}", NULL, -1, {0, 10, 0}, 3, {ANY_BUT_END, ANY_BUT_END, BIT(0), BIT(END)}},
      /* A special token that no answer begins with does not end the reasoning. */
      {"ba", NULL, "}", "<pad>", -1, {0, 6}, 2, {~(BIT(8) | BIT(END)), ~(BIT(8) | BIT(END)), BIT(1)}},
      {"ba", NULL, "b{", NULL, 2, {0, 0, 1, 5, 1}, 5, {ANY_BUT_END, ANY_BUT_END, BIT(1), BIT(5), BIT(1), BIT(0)}},
  };
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) check_masks(&f, &rows[i]);
  release(&f);
}

/* A call that the constraint permits ends the reasoning, and belongs to the answer. */
static void test_a_call_ends_reasoning(void **state)
{
  static const char tag[] = "{\"type\": \"structural_tag\", \"format\": {\"type\": \"token\", \"token\": 8}}";
  static const int32_t ids[] = {0, 8}, ends[] = {END};
  yk_request_constraint c;
  uint32_t words[N_WORDS];
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  const yk_sampling s = {.constraint_kind = YK_CONSTRAINT_STRUCTURAL_TAG,
                         .constraint = tag,
                         .constraint_bytes = sizeof tag - 1,
                         .reasoning_tags = &(yk_reasoning_tags){NULL, "}", "<pad>"},
                         .reasoning_is_open = true,
                         .max_reasoning_tokens = -1};
  assert_int_equal(init(&c, &f, &s), YK_OK);
  yk_constrained_output output = {.ids = ids, .n = 1, .end_ids = ends, .n_end_ids = 1, .n_eos_ids = 1};
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], ANY_BUT_END);
  output.n = 2;
  yk_request_constraint_fill(&c, &output, words, N_WORDS);
  assert_int_equal(words[0], BIT(END));
  yk_request_constraint_end(&c);
  release(&f);
}

/* Needs no grammar library. A close tag that the model has begun is completed; without reasoning there is no limit. */
static void test_a_limit_of_reasoning(void **state)
{
  static const mask_case rows[] = {
      {NULL, NULL, "b{", NULL, 0, {1, 5}, 2, {BIT(1), BIT(5), ANY}},
      {NULL, NULL, "b{", NULL, 2, {0, 1, 5}, 3, {ANY, ANY, BIT(5), ANY}},
      {NULL, NULL, "b{", NULL, 2, {0, 0, 1, 5, 0}, 5, {ANY, ANY, BIT(1), BIT(5), ANY, ANY}},
      {NULL, NULL, "b{", NULL, 3, {1, 5, 0, 0, 0}, 5, {ANY, ANY, ANY, ANY, ANY, ANY}},
      {NULL, "<t>", "}", NULL, 1, {9, 0, 6, 0}, 4, {ANY, ANY, BIT(6), ANY, ANY}},
      {NULL, "<t>", "}", NULL, 0, {9, 6, 0}, 3, {ANY, BIT(6), ANY, ANY}},
      {NULL, "<t>", "}", NULL, 0, {0, 9, 0}, 3, {ANY, ANY, ANY, ANY}},
      {NULL, NULL, NULL, NULL, 0, {0, 0}, 2, {ANY, ANY, ANY}},
  };
  (void)state;
  fixture f = grammars_of(20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) check_masks(&f, &rows[i]);
  yk_request_constraint c;
  yk_err err = YK_ERR_INIT;
  const yk_constrained_model model = {f.grammars, f.tokenizer, "", N_IDS};
  yk_sampling s = {
      .reasoning_tags = &(yk_reasoning_tags){NULL, "bab", NULL}, .reasoning_is_open = true, .max_reasoning_tokens = 1};
  assert_int_equal(yk_request_constraint_init(&c, &model, &s, NULL, 0, &err), YK_E_INVAL);
  assert_string_equal(err.message, "tags of reasoning: expected a text whose first byte occurs once, found \"bab\"");
  release(&f);
}

static void test_allowed_ids_alone(void **state)
{
  static const int32_t allowed[] = {1, 5};
  yk_err err = YK_ERR_INIT;
  yk_request_constraint c;
  uint32_t words[N_WORDS];
  (void)state;
  const yk_constrained_model model = {NULL, NULL, "the model has no tokenizer", N_IDS};
  yk_sampling s = {.allowed_ids = allowed, .n_allowed_ids = 2};
  assert_int_equal(yk_request_constraint_init(&c, &model, &s, NULL, 0, &err), YK_OK);
  yk_request_constraint_fill(&c, &(yk_constrained_output){0}, words, N_WORDS);
  assert_int_equal(words[0], BIT(1) | BIT(5));
  yk_request_constraint_end(&c);
  s.constraint_kind = YK_CONSTRAINT_JSON_OBJECT;
  assert_int_equal(yk_request_constraint_init(&c, &model, &s, NULL, 0, &err), YK_E_UNSUPPORTED);
  assert_string_equal(err.message, "constraint: the model has no tokenizer");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_of_tokens),
      cmocka_unit_test(test_a_missing_library),
      cmocka_unit_test(test_a_broken_library),
      cmocka_unit_test(test_without_end_ids),
      cmocka_unit_test(test_other_end_ids),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_a_request),
      cmocka_unit_test(test_a_beginning),
      cmocka_unit_test(test_a_constraint_begins_behind_reasoning),
      cmocka_unit_test(test_a_call_ends_reasoning),
      cmocka_unit_test(test_a_limit_of_reasoning),
      cmocka_unit_test(test_many_end_ids),
      cmocka_unit_test(test_allowed_ids_alone),
      cmocka_unit_test(test_a_grammar_that_takes_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

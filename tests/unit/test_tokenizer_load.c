/* A tokenizer.json that is malformed, contradicts itself or needs unsupported features: an error that names the
 * cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\" \":3},\"merges\":[[\"a\",\"b\"]]}"
#define SPLIT(pattern)                                                                                                 \
  "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false," pattern "}," MODEL "}"
#define REGEX(pattern)         SPLIT("\"pattern\":{\"Regex\":\"" pattern "\"}")
#define ADDED(tokens)          "{\"added_tokens\":[" tokens "]," MODEL "}"
#define DECODER(decoder)       "{\"decoder\":" decoder "," MODEL "}"
#define NORMALIZER(normalizer) "{\"normalizer\":" normalizer "," MODEL "}"
#define PRE(pre_tokenizer)     "{\"pre_tokenizer\":" pre_tokenizer "," MODEL "}"
#define POST(post_processor)   "{\"post_processor\":" post_processor "," MODEL "}"
#define BPE(rest)              "{\"model\":{\"type\":\"BPE\"," rest "}}"

typedef struct bad_file {
  const char *json;
  yk_status status;
  const char *message; /* a part of it */
} bad_file;

static yk_status parse(const char *json, size_t n_bytes, yk_tokenizer **out, yk_err *err)
{
  char *exact = malloc(n_bytes ? n_bytes : 1); /* of exactly its size, so that a read past its end is detected */
  assert_non_null(exact);
  memcpy(exact, json, n_bytes);
  yk_status status = yk_tokenizer_parse("t.json", exact, n_bytes, out, err);
  free(exact);
  return status;
}

static void check_bad(const bad_file *files, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    yk_tokenizer *tokenizer = NULL;
    yk_err err = YK_ERR_INIT;
    yk_status status = parse(files[i].json, strlen(files[i].json), &tokenizer, &err);
    if (status != files[i].status || err.code != status || !strstr(err.message, files[i].message))
      fail_msg("%.200s: expected status %d and \"%s\", found %d and \"%s\"", files[i].json, files[i].status,
               files[i].message, status, err.message);
    if (!strstr(err.message, "t.json")) fail_msg("the message does not name the file: %s", err.message);
    assert_null(tokenizer);
  }
}

/* The same for errors without a position: only the status is checked. */
static void check_status(const bad_file *files, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    yk_tokenizer *tokenizer = NULL;
    assert_int_equal(parse(files[i].json, strlen(files[i].json), &tokenizer, NULL), files[i].status);
    assert_null(tokenizer);
  }
}

#define CHECK_BAD(files)                                                                                               \
  do {                                                                                                                 \
    check_bad(files, sizeof files / sizeof *files);                                                                    \
    check_status(files, sizeof files / sizeof *files);                                                                 \
  } while (0)

static void test_structure(void **state)
{
  static const bad_file FILES[] = {
      {"", YK_E_FORMAT, ""},
      {"[]", YK_E_FORMAT, "expected an object, found array"},
      {"null", YK_E_FORMAT, "expected an object, found null"},
      {"{}", YK_E_FORMAT, "model: expected an object, found nothing"},
      {"{\"model\":3}", YK_E_FORMAT, "model: expected an object, found integer"},
      {"{\"version\":\"2.0\"," MODEL "}", YK_E_UNSUPPORTED, "version \"2.0\" is not supported (supported: 1.0)"},
      {"{\"version\":1," MODEL "}", YK_E_FORMAT, "key \"version\": expected a string, found integer"},
      {"{\"added_tokens\":{}," MODEL "}", YK_E_FORMAT, "added_tokens: expected an array, found object"},
      {"{\"normalizer\":[]," MODEL "}", YK_E_FORMAT, "normalizer: expected an object, found array"},
      {"{\"model\":{\"vocab\":{\"\xFF\":0},\"merges\":[]}}", YK_E_FORMAT, "expected UTF-8, found byte 0xff"},
  };
  (void)state;
  CHECK_BAD(FILES);
}

static void test_model(void **state)
{
  static const bad_file FILES[] = {
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", YK_E_UNSUPPORTED,
       "model type \"Unigram\" is not supported (supported: BPE)"},
      {"{\"model\":{\"type\":\"WordPiece\"}}", YK_E_UNSUPPORTED, "\"WordPiece\""},
      {BPE("\"merges\":[]"), YK_E_FORMAT, "model.vocab: expected an object, found nothing"},
      {BPE("\"vocab\":[],\"merges\":[]"), YK_E_FORMAT, "model.vocab: expected an object, found array"},
      {BPE("\"vocab\":{\"a\":0}"), YK_E_FORMAT, "model.merges: expected an array, found nothing"},
      {BPE("\"vocab\":{\"a\":\"0\"},\"merges\":[]"), YK_E_FORMAT,
       "id of \"a\": expected an integer from 0 to 4194303, found string"},
      {BPE("\"vocab\":{\"a\":0.5},\"merges\":[]"), YK_E_FORMAT,
       "id of \"a\": expected an integer from 0 to 4194303, found number"},
      {BPE("\"vocab\":{\"a\":-1},\"merges\":[]"), YK_E_FORMAT,
       "token \"a\": expected an id from 0 to 4194303, found -1"},
      {BPE("\"vocab\":{\"a\":2147483647},\"merges\":[]"), YK_E_FORMAT, "from 0 to 4194303, found 2147483647"},
      {BPE("\"vocab\":{\"a\":4611686018427387904},\"merges\":[]"), YK_E_FORMAT, "found 4611686018427387904"},
      {BPE("\"vocab\":{\"a\":4194304},\"merges\":[]"), YK_E_FORMAT, "from 0 to 4194303, found 4194304"},
      {BPE("\"vocab\":{\"a\":99999999999999999999},\"merges\":[]"), YK_E_FORMAT,
       "from 0 to 4194303, found 99999999999999999999"},
      {BPE("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), YK_E_FORMAT, "id 0 is given to two tokens, \"a\" and \"b\""},
      {BPE("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]"), YK_E_FORMAT,
       "merges[0]: the merged \"ab\" is not in the vocabulary"},
      {BPE("\"vocab\":{\"a\":0,\"ab\":1},\"merges\":[\"a b\"]"), YK_E_FORMAT,
       "merges[0]: \"b\" is not in the vocabulary"},
      {BPE("\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\",[\"x\",\"a\"]]"), YK_E_FORMAT, "merges[1]: \"x\" is not"},
      {BPE("\"vocab\":{\"a\":0},\"merges\":[\"a\"]"), YK_E_FORMAT, "merges[0]: expected \"left right\""},
      {BPE("\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]"), YK_E_FORMAT, "merges[0]: expected \"left right\""},
      {BPE("\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]"), YK_E_FORMAT, "found array"},
      {BPE("\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]"), YK_E_FORMAT, "merges[0]: expected"},
      {BPE("\"vocab\":{\"a\":0},\"merges\":[7]"), YK_E_FORMAT, "found integer"},
      {BPE("\"vocab\":{},\"merges\":{}"), YK_E_FORMAT, "model.merges: expected an array, found object"},
      {BPE("\"dropout\":0.1,\"vocab\":{},\"merges\":[]"), YK_E_UNSUPPORTED, "model.dropout 0.1 is not supported"},
      {BPE("\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]"), YK_E_UNSUPPORTED,
       "end_of_word_suffix \"</w>\""},
      {BPE("\"continuing_subword_prefix\":\"##\",\"vocab\":{},\"merges\":[]"), YK_E_UNSUPPORTED,
       "\"##\" is not supported"},
      {BPE("\"byte_fallback\":1,\"vocab\":{},\"merges\":[]"), YK_E_FORMAT,
       "\"byte_fallback\": expected true or false, found integer"},
      {BPE("\"unk_token\":0,\"vocab\":{},\"merges\":[]"), YK_E_FORMAT, "\"unk_token\": expected a string"},
  };
  (void)state;
  CHECK_BAD(FILES);
}

static void test_added_tokens(void **state)
{
  static const bad_file FILES[] = {
      {ADDED("3"), YK_E_FORMAT, "added_tokens[0]: expected an object, found integer"},
      {ADDED("{\"id\":4}"), YK_E_FORMAT, "key \"content\": expected a string, found nothing"},
      {ADDED("{\"content\":\"x\"}"), YK_E_FORMAT, "key \"id\" is missing"},
      {ADDED("{\"id\":-1,\"content\":\"x\"}"), YK_E_FORMAT, "key \"id\": expected 0 to 4194303, found -1"},
      {ADDED("{\"id\":2147483647,\"content\":\"x\"}"), YK_E_FORMAT, "found 2147483647"},
      {ADDED("{\"id\":9,\"content\":\"x\"}"), YK_E_FORMAT, "\"x\" has id 9, expected 4"},
      {ADDED("{\"id\":1,\"content\":\"a\"}"), YK_E_FORMAT, "\"a\" has id 1, expected 0"},
      {ADDED("{\"id\":4,\"content\":\"x\"},{\"id\":4,\"content\":\"y\"}"), YK_E_FORMAT, "\"y\" has id 4, expected 5"},
      {ADDED("{\"id\":4,\"content\":\"x\"},{\"id\":5,\"content\":\"x\"}"), YK_E_FORMAT, "x"},
      {ADDED("{\"id\":0,\"content\":\"a\"},{\"id\":0,\"content\":\"a\"}"), YK_E_FORMAT,
       "token \"a\": expected once, found twice"},
      {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"\"},\"added_tokens\":[{"
       "\"id\":4,"
       "\"content\":\"x\"}]," MODEL "}",
       YK_E_FORMAT, "added_tokens: an empty text cannot be searched for"},
      {ADDED("{\"id\":4,\"content\":\"x\",\"special\":\"yes\"}"), YK_E_FORMAT, "\"special\": expected true or false"},
      {"{\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"id\":4,\"content\":\"\xC3\xA9\"},{\"id\":5,\"content\":"
       "\"e\xCC\x81\"}]," MODEL "}",
       YK_E_FORMAT, "two tokens are both found by"},
      {"{\"added_tokens\":[{\"id\":2,\"content\":\"x\"}],\"model\":{\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]}}",
       YK_E_FORMAT, "must be free"},
  };
  (void)state;
  CHECK_BAD(FILES);
}

static void test_components(void **state)
{
  static const bad_file FILES[] = {
      {NORMALIZER("{\"type\":\"Lowercase\"}"), YK_E_UNSUPPORTED,
       "normalizer type \"Lowercase\" is not supported (supported: NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence)"},
      {NORMALIZER("{\"kind\":1}"), YK_E_FORMAT, "key \"type\" is missing"},
      {NORMALIZER("{\"type\":\"Sequence\"}"), YK_E_FORMAT, "key \"normalizers\": expected an array, found nothing"},
      {NORMALIZER("{\"type\":\"Sequence\",\"normalizers\":[3]}"), YK_E_FORMAT,
       "normalizer: expected an object, found integer"},
      {NORMALIZER("{\"type\":\"Prepend\"}"), YK_E_FORMAT, "key \"prepend\": expected a string, found nothing"},
      {NORMALIZER("{\"type\":\"Replace\",\"content\":\"x\"}"), YK_E_FORMAT, "key \"pattern\""},
      {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"x\"}"), YK_E_UNSUPPORTED,
       "an empty pattern"},
      {PRE("{\"type\":\"Punctuation\"}"), YK_E_UNSUPPORTED,
       "pre_tokenizer type \"Punctuation\" is not supported (supported: ByteLevel,"},
      {PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}"), YK_E_FORMAT, "key \"behavior\" is missing"},
      {PRE("{\"type\":\"Split\",\"behavior\":\"Glued\",\"pattern\":{\"String\":\"a\"}}"), YK_E_FORMAT,
       "found \"Glued\""},
      {PRE("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), YK_E_FORMAT, "expected one character, found \"ab\""},
      {PRE("{\"type\":\"Metaspace\",\"replacement\":\"\"}"), YK_E_FORMAT, "expected one character"},
      {PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"), YK_E_FORMAT,
       "found \"last\""},
      {PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false,\"prepend_scheme\":\"first\"}"),
       YK_E_FORMAT, "expected never"},
      {PRE("{\"type\":\"Digits\"}"), YK_E_FORMAT, "key \"individual_digits\" is missing"},
      {PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}"),
       YK_E_UNSUPPORTED, "more than one ByteLevel"},
      {DECODER("{\"type\":\"WordPiece\"}"), YK_E_UNSUPPORTED,
       "decoder type \"WordPiece\" is not supported (supported: ByteFallback,"},
      {DECODER("{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}"), YK_E_FORMAT,
       "key \"start\": expected 0 to"},
      {DECODER("{\"type\":\"Strip\",\"start\":1,\"stop\":0}"), YK_E_FORMAT, "key \"content\""},
      {DECODER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}"), YK_E_FORMAT,
       "pattern: missing"},
      {DECODER("\"ByteLevel\""), YK_E_FORMAT, "decoder: expected an object, found string"},
      {POST("{\"type\":\"RobertaProcessing\"}"), YK_E_UNSUPPORTED,
       "post_processor type \"RobertaProcessing\" is not supported (supported: ByteLevel, TemplateProcessing, "
       "Sequence)"},
      {POST("{\"type\":\"TemplateProcessing\"}"), YK_E_FORMAT,
       "key \"single\": expected a non-empty array, found nothing"},
      {POST("{\"type\":\"TemplateProcessing\",\"single\":[{}]}"), YK_E_FORMAT,
       "single[0]: expected SpecialToken or Sequence"},
      {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}"), YK_E_FORMAT,
       "expected Sequence A, found \"B\""},
      {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}]}"), YK_E_FORMAT,
       "no ids for \"s\""},
      {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}],\"special_tokens\":{\"s\":"
            "{\"ids\":[4]}}}"),
       YK_E_FORMAT, "ids of \"s\": expected integers from 0 to 3"},
      {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}],\"special_tokens\":{\"s\":"
            "{\"ids\":[-1]}}}"),
       YK_E_FORMAT, "from 0 to 3"},
  };
  (void)state;
  CHECK_BAD(FILES);
}

static void test_patterns(void **state)
{
  static const bad_file FILES[] = {
      {REGEX("(a"), YK_E_FORMAT, "pattern: missing closing parenthesis"},
      {REGEX("[a"), YK_E_FORMAT, "pattern: missing ] at its end"},
      {REGEX("*a"), YK_E_FORMAT, "pattern: "},
      {REGEX("[a&&b]"), YK_E_UNSUPPORTED, "\"&&\" at byte 2 is not supported: intersection of sets"},
      {REGEX("[a[bc]]"), YK_E_UNSUPPORTED, "set inside a set"},
      {REGEX("[[:alpha:]]"), YK_E_UNSUPPORTED, "set inside a set"},
      {REGEX("[]a]"), YK_E_UNSUPPORTED, "write \\] in a set"},
      {REGEX("(?m:.)"), YK_E_UNSUPPORTED, "\"(?m:\" at byte 0 is not supported: unknown kind of group"},
      {REGEX("a(?i)b"), YK_E_UNSUPPORTED, "unknown kind of group"},
      {REGEX("(*UTF)a"), YK_E_UNSUPPORTED, "unknown kind of group"},
      {REGEX("a{2}+"), YK_E_UNSUPPORTED, "\"{2}+\" at byte 1 is not supported: the syntaxes differ here"},
      {REGEX("a{2}?"), YK_E_UNSUPPORTED, "the syntaxes differ here"},
      {REGEX("a{,2}"), YK_E_UNSUPPORTED, "write {0,m}"},
      {REGEX("\\\\bx"), YK_E_UNSUPPORTED, "\"\\b\" at byte 0 is not supported: unknown escape"},
      {REGEX("(a)\\\\1"), YK_E_UNSUPPORTED, "unknown escape"},
      {REGEX("\\\\"), YK_E_UNSUPPORTED, "nothing follows"},
      {REGEX("\\\\pL"), YK_E_UNSUPPORTED, "expected {name} after it"},
      {REGEX("\\\\p{Script=Han}"), YK_E_UNSUPPORTED, "expected a category or script"},
      {REGEX("\\\\p{Klingon}"), YK_E_UNSUPPORTED, "unknown category or script"},
      {REGEX("[\\\\s-z]"), YK_E_UNSUPPORTED, "\"\\s-z\" at byte 1 is not supported: a range begins with a class"},
      {REGEX("[a-\\\\d]"), YK_E_UNSUPPORTED, "a range ends in a class"},
      {REGEX("[z-a]"), YK_E_FORMAT, "\"z-a\" at byte 1: a range ends before it begins"},
      {REGEX("\\\\x{110000}"), YK_E_FORMAT, "U+110000 at byte 0 is no character"},
      {REGEX("\\\\x{D800}"), YK_E_FORMAT, "U+D800 at byte 0 is no character"},
      {REGEX("(?i:fast)"), YK_E_UNSUPPORTED, "\"t\" at byte 7 is not supported: one character stands for several"},
      {REGEX("(?i)\u00df"), YK_E_UNSUPPORTED, "one character stands for several where case does not count"},
      {REGEX("(?i:[\\\\p{L}])"), YK_E_UNSUPPORTED, "of its characters U+00DF stands for several"},
      {REGEX("\\\\x80"), YK_E_UNSUPPORTED, "expected \\x{hex}"},
      {SPLIT("\"pattern\":\"a\""), YK_E_FORMAT, "expected an object with \"String\" or \"Regex\", found string"},
      {SPLIT("\"pattern\":{\"Glob\":\"*\"}"), YK_E_FORMAT, "key \"Regex\": expected a string, found nothing"},
  };
  (void)state;
  CHECK_BAD(FILES);
}

/* Every beginning of a good file is a bad file. */
static void test_truncated(void **state)
{
  static const char WHOLE[] = "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{"
                              "\"type\":\"NFC\"},\"pre_tokenizer\":{"
                              "\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"\\\\s+\"}},"
                              "\"decoder\":{\"type\":\"Fuse\"}," MODEL "}";
  (void)state;
  yk_tokenizer *tokenizer;
  for (size_t n = 0; n < sizeof WHOLE - 1; n++) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(parse(WHOLE, n, &tokenizer, &err), YK_E_FORMAT);
    assert_non_null(strstr(err.message, "t.json"));
  }
  assert_int_equal(parse(WHOLE, sizeof WHOLE - 1, &tokenizer, NULL), YK_OK);
  yk_tokenizer_free(tokenizer);
}

/* n times open, then middle, then n times close. */
static char *nested(const char *open, const char *middle, const char *close, int n)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "{\"normalizer\":");
  for (int i = 0; i < n; i++) yk_strbuf_append_str(&text, open);
  yk_strbuf_append_str(&text, middle);
  for (int i = 0; i < n; i++) yk_strbuf_append_str(&text, close);
  yk_strbuf_append_str(&text, "," MODEL "}");
  assert_false(text.failed);
  return text.data;
}

static void test_nesting_and_length_are_bounded(void **state)
{
  static const char OPEN[] = "{\"type\":\"Sequence\",\"normalizers\":[", NFC[] = "{\"type\":\"NFC\"}";
  (void)state;
  yk_tokenizer *tokenizer;
  char *json = nested(OPEN, NFC, "]}", 8);
  assert_int_equal(yk_tokenizer_parse("t.json", json, strlen(json), &tokenizer, NULL), YK_OK);
  yk_tokenizer_free(tokenizer);
  free(json);
  const int DEPTHS[] = {9, 500, 100000};
  for (size_t i = 0; i < 3; i++) {
    yk_err err = YK_ERR_INIT;
    json = nested(OPEN, NFC, "]}", DEPTHS[i]);
    assert_int_equal(yk_tokenizer_parse("t.json", json, strlen(json), &tokenizer, &err), YK_E_FORMAT);
    free(json);
  }
  yk_strbuf many = YK_STRBUF_INIT;
  for (int i = 0; i < 1000; i++) yk_strbuf_append_fmt(&many, "%s{\"type\":\"Fuse\"}", i ? "," : "");
  yk_strbuf file = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&file, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s]}," MODEL "}", many.data);
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_tokenizer_parse("t.json", file.data, file.length, &tokenizer, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "decoder: more than 32 steps"));
  yk_strbuf_free(&many);
  yk_strbuf_free(&file);
}

/* Files that load but must not take all time or memory, or cannot encode every text. */
static void check_encode_fails(const char *json, const char *text, yk_status expected, const char *message)
{
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_parse("t.json", json, strlen(json), &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  int32_t *ids = NULL;
  size_t n = 0;
  yk_status status = yk_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &n, &err);
  if (status != expected || !strstr(err.message, message))
    fail_msg("%s: expected status %d and \"%s\", found %d and \"%s\"", json, expected, message, status, err.message);
  assert_null(ids);
  yk_tokenizer_free(tokenizer);
}

static void test_texts_that_cannot_be_encoded(void **state)
{
  (void)state;
  check_encode_fails(REGEX("(?:a|aa)+(?![ab])"), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                     YK_E_INVAL, "pattern cannot split this text");
  check_encode_fails("{\"model\":{\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0},\"merges\":[]}}", "ab", YK_E_FORMAT,
                     "character \"b\" has no token, nor has unk_token \"<unk>\"");
  yk_strbuf doubling = YK_STRBUF_INIT;
  for (int i = 0; i < 32; i++)
    yk_strbuf_append_fmt(&doubling, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}",
                         i ? "," : "");
  yk_strbuf json = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&json, NORMALIZER("{\"type\":\"Sequence\",\"normalizers\":[%s]}"), doubling.data);
  check_encode_fails(json.data, "a", YK_E_FORMAT, "normalizer: Replace makes the text longer than");
  yk_strbuf_clear(&json);
  yk_strbuf_append_fmt(&json, DECODER("{\"type\":\"Sequence\",\"decoders\":[%s]}"), doubling.data);
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  yk_strbuf text = YK_STRBUF_INIT;
  assert_int_equal(yk_tokenizer_parse("t.json", json.data, json.length, &tokenizer, &err), YK_OK);
  assert_int_equal(yk_tokenizer_decode(tokenizer, (int32_t[]){0}, 1, false, &text, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "decoder: Replace makes the text more than 256 times longer"));
  yk_tokenizer_free(tokenizer);
  yk_strbuf_free(&text);
  yk_strbuf_free(&doubling);
  yk_strbuf_free(&json);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_structure),
      cmocka_unit_test(test_model),
      cmocka_unit_test(test_added_tokens),
      cmocka_unit_test(test_components),
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_nesting_and_length_are_bounded),
      cmocka_unit_test(test_texts_that_cannot_be_encoded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

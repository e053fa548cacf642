/* Any bytes are a tokenizer.json, or an error; any bytes are a text, or an error with the position of invalid UTF-8.
 *
 * An input that begins with '{' is a tokenizer.json, which must encode and decode if it is accepted. In any other
 * input, the first byte selects one of the tokenizers built here, and the rest is a text for it. Always: a token at a
 * time gives the text of all at once, in whole characters. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/detokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* Decode at once and token by token: the same bytes, always whole characters. Returns the text. */
static yk_strbuf decode(const yk_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special_tokens)
{
  yk_strbuf whole = YK_STRBUF_INIT, pieces = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  yk_detokenizer *detokenizer;
  yk_status status = yk_tokenizer_decode(tokenizer, ids, n, skip_special_tokens, &whole, &err);
  require(status == YK_OK || (err.code == status && err.message[0] != '\0'));
  require(yk_detokenizer_create(tokenizer, skip_special_tokens, &detokenizer, NULL) == YK_OK);
  yk_status streamed = YK_OK;
  for (size_t i = 0; i < n && streamed == YK_OK; i++) {
    size_t before = pieces.length;
    streamed = yk_detokenizer_push(detokenizer, ids[i], &pieces, NULL);
    size_t added = pieces.length - before;
    require(added == 0 || yk_utf8_valid_bytes(pieces.data + before, added) == added);
  }
  if (streamed == YK_OK) streamed = yk_detokenizer_finish(detokenizer, &pieces, NULL);
  require(streamed == status);
  require(pieces.length == whole.length && (whole.length == 0 || memcmp(pieces.data, whole.data, whole.length) == 0));
  require(yk_utf8_valid_bytes(whole.data, whole.length) == whole.length);
  yk_detokenizer_free(detokenizer);
  yk_strbuf_free(&pieces);
  return whole;
}

/* Encodes and decodes a text. reversible: the result must equal the text. */
static void check_text(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, bool reversible)
{
  int32_t *ids = NULL;
  size_t n = 0;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_tokenizer_encode(tokenizer, text, n_bytes, true, &ids, &n, &err);
  if (status != YK_OK) {
    require(err.code == status && err.message[0] != '\0');
    return;
  }
  for (size_t i = 0; i < n; i++) require(ids[i] >= 0 && ids[i] < yk_tokenizer_vocab_size(tokenizer));
  yk_strbuf decoded = decode(tokenizer, ids, n, false);
  if (reversible) require(decoded.length == n_bytes && (n_bytes == 0 || memcmp(decoded.data, text, n_bytes) == 0));
  yk_strbuf_free(&decoded);
  decoded = decode(tokenizer, ids, n, true);
  yk_strbuf_free(&decoded);
  free(ids);
}

/* Decode ids that the bytes select. */
static void check_ids(const yk_tokenizer *tokenizer, const uint8_t *data, size_t n_bytes)
{
  int32_t vocab_size = yk_tokenizer_vocab_size(tokenizer), *ids = malloc((n_bytes + 1) * sizeof *ids);
  if (!ids || vocab_size == 0) {
    free(ids);
    return;
  }
  for (size_t i = 0; i < n_bytes; i++) ids[i] = (int32_t)((data[i] * 7919u + i % 3) % (uint32_t)vocab_size);
  yk_strbuf text = decode(tokenizer, ids, n_bytes, n_bytes % 2 == 1);
  yk_strbuf_free(&text);
  free(ids);
}

static void check_json(const uint8_t *data, size_t n_bytes)
{
  static const char *const TEXTS[] = {"", "a", " it's 12 <s>\n\n x\xCC\x81",
                                      "\xE2\x96\x81\xF0\x9F\x98\x80  \xE4\xB8\xAD</s>"};
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_tokenizer_parse("tokenizer.json", (const char *)data, n_bytes, &tokenizer, &err);
  require(status == YK_OK || (err.code == status && err.message[0] != '\0'));
  if (status != YK_OK) return;
  for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) check_text(tokenizer, TEXTS[i], strlen(TEXTS[i]), false);
  check_ids(tokenizer, data, n_bytes < 64 ? n_bytes : 64);
  yk_tokenizer_free(tokenizer);
}

static const char *const PATTERN =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}"
    "\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";

/* "x":id entries: the byte-level alphabet, and a few longer tokens. */
static void append_byte_vocab(yk_strbuf *json)
{
  for (int byte = 0; byte < 256; byte++) {
    char character[YK_UTF8_MAX_BYTES];
    size_t length = yk_utf8_encode(yk_byte_map_char((unsigned char)byte), character);
    yk_strbuf_append_fmt(json, "\"%s%.*s\":%d,", byte == '"' || byte == '\\' ? "\\" : "", (int)length, character, byte);
  }
  yk_strbuf_append_str(json, "\"aa\":256,\"aaaa\":257,\"ab\":258,\"aab\":259,\"\xC4\xA0"
                             "a\":260");
}

static const char *const MERGES = "[[\"a\",\"a\"],\"aa aa\",[\"a\",\"b\"],[\"a\",\"ab\"],[\"\xC4\xA0\",\"a\"]]";

/* Byte-level: decoding the ids of any text returns the text. */
static void append_byte_level(yk_strbuf *json)
{
  yk_strbuf_append_fmt(
      json,
      "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
      "\"pattern\":{\"Regex\":\"%s\"}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
      "\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},",
      PATTERN);
  yk_strbuf_append_str(
      json, "\"added_tokens\":[{\"id\":261,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
            "{\"id\":262,\"content\":\"abc\",\"single_word\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{");
  append_byte_vocab(json);
  yk_strbuf_append_fmt(json, "},\"merges\":%s}}", MERGES);
}

/* The same with normalisation, greedy added tokens and other splits: the decoded text may differ. */
static void append_changing(yk_strbuf *json)
{
  yk_strbuf_append_str(
      json, "{\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
            "{\"type\":\"Split\",\"behavior\":\"MergedWithNext\",\"invert\":true,\"pattern\":{\"Regex\":\"\\\\w+\"}},"
            "{\"type\":\"Split\",\"behavior\":\"Contiguous\",\"pattern\":{\"String\":\".\"}},"
            "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"ByteLevel\"}]},"
            "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":["
            "{\"id\":261,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,\"rstrip\":true,\"normalized\":false},"
            "{\"id\":262,\"content\":\"\\n\",\"lstrip\":true,\"rstrip\":true,\"normalized\":false},"
            "{\"id\":263,\"content\":\" x\",\"rstrip\":true,\"single_word\":true}],\"model\":{\"vocab\":{");
  append_byte_vocab(json);
  yk_strbuf_append_fmt(json, "},\"merges\":%s,\"ignore_merges\":true}}", MERGES);
}

/* Characters with byte fallback. */
static void append_byte_fallback(yk_strbuf *json)
{
  yk_strbuf_append_str(
      json,
      "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]},"
      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},"
      "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
      "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}]},"
      "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
      "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
      "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
      "\"vocab\":{\"<unk>\":0,\"<s>\":1,");
  for (int byte = 0; byte < 256; byte++)
    if (byte % 5) yk_strbuf_append_fmt(json, "\"<0x%02X>\":%d,", (unsigned)byte, byte + 2);
  yk_strbuf_append_str(json, "\"\\u2581\":258,\"a\":259,\"b\":260,\"\\u2581a\":261,\"ab\":262},"
                             "\"merges\":[\"\\u2581 a\",\"a b\"]}}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  if (n_bytes == 0) return 0;
  if (data[0] == '{') {
    check_json(data, n_bytes);
    return 0;
  }
  yk_strbuf json = YK_STRBUF_INIT;
  int kind = data[0] % 3;
  if (kind == 0) append_byte_level(&json);
  if (kind == 1) append_changing(&json);
  if (kind == 2) append_byte_fallback(&json);
  yk_tokenizer *tokenizer;
  require(yk_tokenizer_parse("fixed", json.data, json.length, &tokenizer, NULL) == YK_OK);
  yk_strbuf_free(&json);
  check_text(tokenizer, (const char *)data + 1, n_bytes - 1, kind == 0);
  check_ids(tokenizer, data + 1, n_bytes - 1);
  yk_tokenizer_free(tokenizer);
  return 0;
}

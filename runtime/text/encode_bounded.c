#include "text/encode_bounded.h"

#include <stdlib.h>
#include <string.h>

#include "text/ids.h"
#include "text/tokenizer_parts.h"

/* Tokens of ordinary text are shorter: a text with at most this number of bytes per allowed token is encoded at
 * once. */
enum { TOKEN_BYTES = 8 };

/* Number of end encodings that are compared: several reveal groupings of digits and of repeated characters. */
enum { N_ENDS = 4, MARGIN_IDS = 64 };

/* The beginning of a text, encoded separately, has at most this number of tokens more than the text: the tokens of a
 * cut added token, of the last piece, which the pattern might have cut otherwise, and of characters that are composed
 * with their successors. */
static size_t margin(size_t max_ids)
{
  return 256 + max_ids / 16;
}

/* The largest length up to n_bytes at which a character ends. */
static size_t cut_at(const char *text, size_t n_bytes)
{
  while (n_bytes > 0 && ((unsigned char)text[n_bytes] & 0xC0) == 0x80) n_bytes--;
  return n_bytes;
}

/* The spans within the first n_bytes, in the caller's items. Shortens the last span if necessary; *last_end keeps its
 * end, for the caller to restore. */
static yk_spans cut_spans(const yk_spans *plain, size_t n_bytes, size_t *last_end)
{
  yk_spans cut = {.items = plain->items};
  while (cut.n < plain->n && plain->items[cut.n].begin < n_bytes) cut.n++;
  if (cut.n == 0) return cut;
  *last_end = cut.items[cut.n - 1].end;
  if (*last_end > n_bytes) cut.items[cut.n - 1].end = n_bytes;
  return cut;
}

/* Whether the beginning of the text alone has too many ids. */
static yk_status check_beginning(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, const yk_spans *plain,
                                 size_t max_ids, bool *is_too_long, yk_err *err)
{
  int32_t *ids = NULL;
  size_t n_ids = 0, last_end = 0;
  yk_spans cut = cut_spans(plain, n_bytes, &last_end);
  yk_status status = yk_tokenizer_encode_partly_plain(tokenizer, text, n_bytes, &cut, false, &ids, &n_ids, err);
  if (cut.n > 0) cut.items[cut.n - 1].end = last_end;
  free(ids);
  *is_too_long = status == YK_OK && n_ids > max_ids + margin(max_ids);
  return status;
}

yk_status yk_tokenizer_encode_bounded(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                      const yk_spans *plain, bool add_special_tokens, size_t max_ids, int32_t **ids,
                                      size_t *n_ids, yk_err *err)
{
  const yk_spans none = {0};
  if (!plain) plain = &none;
  *ids = NULL;
  *n_ids = 0;
  for (size_t length = TOKEN_BYTES * (max_ids + margin(max_ids)); max_ids > 0 && length < n_bytes; length *= 2) {
    bool is_too_long;
    YK_TRY(check_beginning(tokenizer, text, cut_at(text, length), plain, max_ids, &is_too_long, err));
    if (!is_too_long) continue;
    *n_ids = max_ids + 1;
    return yk_err_set(err, YK_E_CAPACITY, /* programs match OpenAI's words */
                      "prompt: expected at most %zu tokens, found more in a text of %zu bytes: this model's maximum "
                      "context length is %zu",
                      max_ids, n_bytes, max_ids);
  }
  return yk_tokenizer_encode_partly_plain(tokenizer, text, n_bytes, plain, add_special_tokens, ids, n_ids, err);
}

/* The spans after the first n_bytes, with offsets from there. The caller frees items. */
static yk_status spans_behind(const yk_spans *plain, size_t n_bytes, yk_spans *out, yk_err *err)
{
  *out = (yk_spans){0};
  for (size_t i = 0; i < plain->n; i++) {
    yk_span span = plain->items[i];
    if (span.end <= n_bytes) continue;
    if (!yk_spans_append(out, span.begin > n_bytes ? span.begin - n_bytes : 0, span.end - n_bytes))
      return yk_err_set(err, YK_E_NOMEM, "no memory for %zu plain parts of a text", plain->n);
  }
  return YK_OK;
}

static yk_status encode_behind(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, size_t begin,
                               const yk_spans *plain, bool add_special_tokens, yk_ids *ids, yk_err *err)
{
  yk_spans behind;
  yk_status status = spans_behind(plain, begin, &behind, err);
  if (status == YK_OK)
    status = yk_tokenizer_encode_partly_plain(tokenizer, text + begin, n_bytes - begin, &behind, add_special_tokens,
                                              &ids->data, &ids->n, err);
  free(behind.items);
  return status;
}

/* Whether n_same ids at the end, or at the beginning, are equal. */
static bool is_same(const yk_ids *a, const yk_ids *b, size_t n_same, bool at_end)
{
  if (a->n < n_same || b->n < n_same) return false;
  const int32_t *first = at_end ? a->data + (a->n - n_same) : a->data;
  const int32_t *second = at_end ? b->data + (b->n - n_same) : b->data;
  return memcmp(first, second, n_same * sizeof *first) == 0;
}

/* The ids of a text's end, from begin on, if the encodings from the next N_ENDS - 1 characters on have the same last
 * n_same ids; or (begin 0, not at_end) of its beginning, if the encodings that end N_ENDS - 1 characters earlier have
 * the same first ones. Else *ids stays empty. */
static yk_status agree(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, size_t begin,
                       const yk_spans *plain, bool add_special_tokens, size_t n_same, bool at_end, yk_ids *ids,
                       yk_err *err)
{
  yk_ids first = {0};
  yk_status status = encode_behind(tokenizer, text, n_bytes, begin, plain, add_special_tokens, &first, err);
  bool agrees = status == YK_OK && first.n >= n_same;
  for (int i = 1; i < N_ENDS && agrees; i++) {
    yk_ids other = {0};
    if (at_end) begin++;
    while (at_end && ((unsigned char)text[begin] & 0xC0) == 0x80) begin++;
    if (!at_end) n_bytes = cut_at(text, n_bytes - 1);
    status = encode_behind(tokenizer, text, n_bytes, begin, plain, add_special_tokens, &other, err);
    agrees = status == YK_OK && is_same(&first, &other, n_same, at_end);
    free(other.data);
  }
  if (agrees)
    *ids = first;
  else
    free(first.data);
  return status;
}

yk_status yk_tokenizer_encode_last(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                   const yk_spans *plain, bool add_special_tokens, size_t n_last, int32_t **ids,
                                   size_t *n_ids, yk_err *err)
{
  const yk_spans none = {0};
  yk_ids found = {0};
  if (!plain) plain = &none;
  *ids = NULL;
  *n_ids = 0;
  size_t n_same = n_last + MARGIN_IDS;
  for (size_t length = TOKEN_BYTES * n_same; !found.data && length < n_bytes / (2 * N_ENDS); length *= 4)
    YK_TRY(agree(tokenizer, text, n_bytes, cut_at(text, n_bytes - length), plain, add_special_tokens, n_same, true,
                 &found, err));
  if (!found.data) YK_TRY(encode_behind(tokenizer, text, n_bytes, 0, plain, add_special_tokens, &found, err));
  if (found.n > n_last) {
    memmove(found.data, found.data + (found.n - n_last), n_last * sizeof *found.data);
    found.n = n_last;
  }
  *ids = found.data;
  *n_ids = found.n;
  return YK_OK;
}

/* The first n_first ids of a text, without special tokens around the text. */
static yk_status encode_first(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, size_t n_first,
                              yk_ids *ids, yk_err *err)
{
  size_t n_same = n_first + MARGIN_IDS;
  const yk_spans none = {0};
  *ids = (yk_ids){0};
  for (size_t length = TOKEN_BYTES * n_same; !ids->data && length < n_bytes / (2 * N_ENDS); length *= 4)
    YK_TRY(agree(tokenizer, text, cut_at(text, length), 0, &none, false, n_same, false, ids, err));
  if (!ids->data) YK_TRY(yk_tokenizer_encode(tokenizer, text, n_bytes, false, &ids->data, &ids->n, err));
  if (ids->n > n_first) ids->n = n_first;
  return YK_OK;
}

yk_status yk_tokenizer_encode_truncated(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        bool add_special_tokens, size_t n_most, bool keeps_end, int32_t **ids,
                                        size_t *n_ids, yk_err *err)
{
  const yk_post_processor *post = &tokenizer->post_processor;
  size_t n_special = add_special_tokens ? yk_post_processor_n_special(post) : 0;
  size_t n_text = n_most > n_special ? n_most - n_special : 0, n_encoded = n_text ? n_text : 1;
  yk_ids found = {0}, out = {0};
  *ids = NULL;
  *n_ids = 0;
  if (keeps_end)
    YK_TRY(yk_tokenizer_encode_last(tokenizer, text, n_bytes, NULL, false, n_encoded, &found.data, &found.n, err));
  else
    YK_TRY(encode_first(tokenizer, text, n_bytes, n_encoded, &found, err));
  if (found.n > n_text) found.n = n_text;
  yk_post_processor_apply(post, &found, add_special_tokens, &out);
  free(found.data);
  if (out.failed) {
    free(out.data);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu tokens of a text", n_most);
  }
  *ids = out.data;
  *n_ids = out.n < n_most ? out.n : n_most;
  return YK_OK;
}

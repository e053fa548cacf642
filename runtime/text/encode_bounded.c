#include "text/encode_bounded.h"

#include <stdlib.h>
#include <string.h>

#include "text/ids.h"

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

/* The ids of the text's end from begin on, if the encodings from the next N_ENDS - 1 characters on have the same last
 * n_same ids; else *ids stays empty. */
static yk_status agree(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, size_t begin,
                       const yk_spans *plain, bool add_special_tokens, size_t n_same, yk_ids *ids, yk_err *err)
{
  yk_ids first = {0};
  yk_status status = encode_behind(tokenizer, text, n_bytes, begin, plain, add_special_tokens, &first, err);
  bool is_same = status == YK_OK && first.n >= n_same;
  for (int i = 1; i < N_ENDS && is_same; i++) {
    yk_ids other = {0};
    begin++;
    while (((unsigned char)text[begin] & 0xC0) == 0x80) begin++;
    status = encode_behind(tokenizer, text, n_bytes, begin, plain, add_special_tokens, &other, err);
    is_same =
        status == YK_OK && other.n >= n_same &&
        memcmp(first.data + (first.n - n_same), other.data + (other.n - n_same), n_same * sizeof *first.data) == 0;
    free(other.data);
  }
  if (is_same)
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
    YK_TRY(agree(tokenizer, text, n_bytes, cut_at(text, n_bytes - length), plain, add_special_tokens, n_same, &found,
                 err));
  if (!found.data) YK_TRY(encode_behind(tokenizer, text, n_bytes, 0, plain, add_special_tokens, &found, err));
  if (found.n > n_last) {
    memmove(found.data, found.data + (found.n - n_last), n_last * sizeof *found.data);
    found.n = n_last;
  }
  *ids = found.data;
  *n_ids = found.n;
  return YK_OK;
}

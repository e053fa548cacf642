#include "text/encode_bounded.h"

#include <stdlib.h>

/* What a token of an ordinary text takes, and more: a text within this many bytes a token is encoded at once. */
enum { TOKEN_BYTES = 8 };

/* The beginning of a text has at most so many tokens more than the text: those of an added token that was cut, of the
 * last piece, which the pattern might have cut otherwise, and of characters that are composed with what follows. */
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

/* The spans within the first n_bytes; items stays the caller's but for the end of the last, which *last_end keeps. */
static yk_spans cut_spans(const yk_spans *plain, size_t n_bytes, size_t *last_end)
{
  yk_spans cut = {.items = plain->items};
  while (cut.n < plain->n && plain->items[cut.n].begin < n_bytes) cut.n++;
  if (cut.n == 0) return cut;
  *last_end = cut.items[cut.n - 1].end;
  if (*last_end > n_bytes) cut.items[cut.n - 1].end = n_bytes;
  return cut;
}

/* Whether the beginning of the text already has more ids than there may be, whatever follows. */
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
    return yk_err_set(err, YK_E_CAPACITY, /* programs know OpenAI's words */
                      "prompt: expected at most %zu tokens, found more in a text of %zu bytes: this model's maximum "
                      "context length is %zu",
                      max_ids, n_bytes, max_ids);
  }
  return yk_tokenizer_encode_partly_plain(tokenizer, text, n_bytes, plain, add_special_tokens, ids, n_ids, err);
}

#include "engine/output_reasoning.h"

#include <stdlib.h>
#include <string.h>

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static bool copy(const char *text, char **out)
{
  *out = text ? strdup(text) : NULL;
  return !text || *out;
}

/* Tags are found without going back: a byte that does not continue a tag can only begin it. */
static yk_status check_tag(const char *tag, yk_err *err)
{
  if (!tag || (tag[0] && !strchr(tag + 1, tag[0]))) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "expected a text whose first byte occurs once, found \"%.40s\"", tag);
}

static yk_status encode(const yk_tokenizer *tokenizer, const char *tag, int32_t **ids, size_t *n_ids, yk_err *err)
{
  if (!tag) return YK_OK;
  YK_TRY(check_tag(tag, err));
  YK_TRY(yk_tokenizer_encode(tokenizer, tag, strlen(tag), false, ids, n_ids, err));
  return *n_ids > 0 ? YK_OK : yk_err_set(err, YK_E_INVAL, "\"%.40s\" has no tokens", tag);
}

static yk_status set_tags(yk_output_reasoning *r, const yk_tokenizer *tokenizer, const yk_sampling *s, yk_err *err)
{
  const yk_reasoning_tags *tags = s->reasoning_tags;
  if (!copy(s->reasoning_is_open ? NULL : tags->open, &r->open) || !copy(tags->close, &r->close))
    return yk_err_set(err, YK_E_NOMEM, "no memory for tags");
  YK_TRY(encode(tokenizer, r->open, &r->open_ids, &r->n_open_ids, err));
  YK_TRY(encode(tokenizer, r->close, &r->close_ids, &r->n_close_ids, err));
  if (tags->call) r->call_id = yk_tokenizer_token_id(tokenizer, tags->call, strlen(tags->call));
  return yk_detokenizer_create(tokenizer, false, &r->detokenizer, err);
}

yk_status yk_output_reasoning_init(yk_output_reasoning *r, const yk_tokenizer *tokenizer, const char *no_tokenizer,
                                   const yk_sampling *s, yk_err *err)
{
  *r = (yk_output_reasoning){.text = YK_STRBUF_INIT, .call_id = -1, .max_tokens = s->max_reasoning_tokens};
  if (!s->reasoning_tags) return YK_OK;
  if (!tokenizer) return yk_err_set(err, YK_E_UNSUPPORTED, "tags of reasoning: %s", no_tokenizer);
  r->part = s->reasoning_is_open ? YK_OUTPUT_REASONS : YK_OUTPUT_OPENS;
  yk_status status = set_tags(r, tokenizer, s, err);
  if (status != YK_OK) yk_err_prefix(err, "tags of reasoning");
  if (status != YK_OK) yk_output_reasoning_end(r);
  return status;
}

void yk_output_reasoning_end(yk_output_reasoning *r)
{
  yk_detokenizer_free(r->detokenizer);
  yk_strbuf_free(&r->text);
  free(r->open);
  free(r->close);
  free(r->open_ids);
  free(r->close_ids);
  r->detokenizer = NULL;
  r->open = r->close = NULL;
  r->open_ids = r->close_ids = NULL;
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

static bool is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Advances in the tag by the byte c, or begins the tag again if c does not continue it. Returns whether the tag is
 * complete. */
static bool take(yk_output_reasoning *r, const char *tag, char c)
{
  if (c != tag[r->n_tag]) r->n_tag = 0;
  if (c == tag[r->n_tag]) r->n_tag++;
  if (tag[r->n_tag]) return false;
  r->n_tag = 0;
  return true;
}

static void open_byte(yk_output_reasoning *r, char c)
{
  if (r->n_tag == 0 && is_space(c)) return;
  if (c != r->open[r->n_tag]) {
    r->part = YK_OUTPUT_ANSWERS;
  } else if (take(r, r->open, c)) {
    r->part = YK_OUTPUT_REASONS;
    r->first = r->n_read;
  }
}

/* Keeps the text from byte i on, without white space before it. */
static void keep_rest(yk_strbuf *text, size_t i)
{
  while (i < text->length && is_space(text->data[i])) i++;
  memmove(text->data, text->data + i, text->length - i);
  text->length -= i;
}

static void read_token(yk_output_reasoning *r, int32_t id)
{
  r->text.length = 0;
  r->n_read++;
  if (id == r->call_id && r->part == YK_OUTPUT_REASONS) {
    r->part = YK_OUTPUT_ANSWERS;
    r->first = r->n_read - 1;
    return;
  }
  yk_detokenizer_push(r->detokenizer, id, &r->text, NULL); /* an id without a token adds no text */
  for (size_t i = 0; i < r->text.length; i++) {
    if (r->part == YK_OUTPUT_OPENS) {
      open_byte(r, r->text.data[i]);
    } else if (r->part == YK_OUTPUT_REASONS && take(r, r->close, r->text.data[i])) {
      r->part = YK_OUTPUT_ANSWERS;
      r->first = r->n_read;
      keep_rest(&r->text, i + 1);
      return;
    }
  }
  r->text.length = 0;
}

void yk_output_reasoning_read(yk_output_reasoning *r, const int32_t *ids, int32_t n)
{
  while (r->part != YK_OUTPUT_ANSWERS && r->n_read < n) read_token(r, ids[r->n_read]);
}

int32_t yk_output_reasoning_forced(const yk_output_reasoning *r, const int32_t *ids, int32_t n)
{
  size_t n_ids = (size_t)(n - r->first), k = r->n_close_ids - 1;
  if (r->part != YK_OUTPUT_REASONS || r->max_tokens < 0 || n - r->first < r->max_tokens) return -1;
  /* The longest beginning of the tag that the output ends with is continued. */
  while (k > 0 && (k > n_ids || memcmp(ids + n - k, r->close_ids, k * sizeof *ids) != 0)) k--;
  return r->close_ids[k];
}

int32_t yk_output_reasoning_opening(const yk_output_reasoning *r, const int32_t *ids, int32_t n)
{
  bool is_spelled_so = (size_t)n < r->n_open_ids && memcmp(ids, r->open_ids, (size_t)n * sizeof *ids) == 0;
  return r->part == YK_OUTPUT_OPENS && is_spelled_so ? r->open_ids[n] : -1;
}

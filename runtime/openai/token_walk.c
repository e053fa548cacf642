#define _GNU_SOURCE /* memmem */
#include "openai/token_walk.h"

#include <string.h>

#include "base/utf8.h"

/* Appends to the context, which keeps the last ids of a text. */
static void remember(yk_token_walk *walk, const int32_t *ids, size_t n_ids)
{
  for (size_t i = 0; i < n_ids; i++) {
    if (walk->n_context == YK_WALK_CONTEXT_TOKENS)
      memmove(walk->context, walk->context + 1, (--walk->n_context) * sizeof *walk->context);
    walk->context[walk->n_context++] = ids[i];
  }
}

yk_status yk_token_walk_begin(yk_token_walk *walk, yk_token_texts *texts, const int32_t *ids, size_t n_ids, yk_err *err)
{
  const yk_engine *engine = yk_token_texts_engine(texts);
  size_t n_known = n_ids < YK_WALK_CONTEXT_TOKENS ? n_ids : YK_WALK_CONTEXT_TOKENS;
  walk->texts = texts;
  if (n_known) remember(walk, ids + n_ids - n_known, n_known);
  if (!engine) return YK_OK;
  YK_TRY(yk_text_stream_create(engine, false, &walk->stream, err));
  return yk_text_stream_continue(walk->stream, walk->context, walk->n_context, err);
}

void yk_token_walk_free(yk_token_walk *walk)
{
  yk_text_stream_free(walk->stream);
  yk_strbuf_free(&walk->name);
  yk_strbuf_free(&walk->other);
  *walk = (yk_token_walk){0};
}

/* Returns the contents of a buffer. */
static yk_status give(const yk_strbuf *buffer, int32_t id, const char **text, size_t *n_bytes, yk_err *err)
{
  *text = buffer->length ? buffer->data : "";
  *n_bytes = buffer->length;
  return buffer->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the text of token %d", id) : YK_OK;
}

yk_status yk_token_walk_next(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err)
{
  if (walk->has_last) remember(walk, &walk->last, 1);
  walk->last = id;
  walk->has_last = true;
  if (walk->stream) return yk_text_stream_push(walk->stream, &id, 1, text, n_bytes, err);
  YK_TRY(yk_token_text(walk->texts, id, text, n_bytes, err));
  yk_strbuf_clear(&walk->name);
  yk_strbuf_append(&walk->name, *text, *n_bytes);
  return give(&walk->name, id, text, n_bytes, err);
}

/* Whether a token's own text contains part of a character. */
static bool has_part(const char *text, size_t n_bytes)
{
  return memmem(text, n_bytes, YK_UTF8_REPLACEMENT, 3) != NULL;
}

static yk_status read_behind_context(yk_token_walk *walk, int32_t id, yk_err *err)
{
  yk_text_stream *stream;
  const char *text;
  size_t n_bytes;
  YK_TRY(yk_text_stream_create(yk_token_texts_engine(walk->texts), false, &stream, err));
  yk_status status = yk_text_stream_continue(stream, walk->context, walk->n_context, err);
  if (status == YK_OK) status = yk_text_stream_push(stream, &id, 1, &text, &n_bytes, err);
  yk_strbuf_clear(&walk->other);
  if (status == YK_OK) yk_strbuf_append(&walk->other, text, n_bytes);
  yk_text_stream_free(stream);
  return status;
}

yk_status yk_token_walk_other(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err)
{
  YK_TRY(yk_token_text(walk->texts, id, text, n_bytes, err));
  if (!walk->stream || !has_part(*text, *n_bytes)) return YK_OK;
  YK_TRY(read_behind_context(walk, id, err));
  return give(&walk->other, id, text, n_bytes, err);
}

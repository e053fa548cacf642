#include "text/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/decoder_stage.h"

enum { GROWTH_LIMIT = 256, FREE_BYTES_PER_TOKEN = 4096 };

/* State of a stage between tokens. */
typedef struct yk_decoder_state {
  yk_strbuf token;       /* the token so far, for stages that need the whole token */
  yk_strbuf run;         /* BYTE_FALLBACK: bytes of the run so far */
  unsigned char open[4]; /* BYTE_LEVEL: an incomplete character */
  size_t n_open;
  int64_t n_stripped, n_held; /* STRIP: number of characters removed from the front; held back at the end */
  bool in_token;              /* JOIN: part of this token was passed on */
  bool any_token;             /* METASPACE, JOIN: this is not the first token */
} state;

/* Passes text to stage at. A stage receives text, the ends of tokens and the end of the list, and passes the same to
 * the next stage. Behind the last stage the text is appended to the caller's buffer. */
static void feed(yk_decoder_stream *stream, size_t at, const char *text, size_t n_bytes);
static void end_token(yk_decoder_stream *stream, size_t at);

static void feed_replacement(yk_decoder_stream *stream, size_t at)
{
  feed(stream, at, YK_UTF8_REPLACEMENT, sizeof YK_UTF8_REPLACEMENT - 1);
}

/* Decodes a byte-level token to its bytes; a token with any other character stands for itself. */
static void spell_byte_level(yk_strbuf *token)
{
  size_t n = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (size_t at = 0; at < token->length;) {
      uint32_t code_point = 0;
      at += yk_utf8_decode(token->data + at, token->length - at, &code_point);
      int byte = yk_byte_map_byte(code_point);
      if (byte < 0) return;
      if (pass == 1) token->data[n++] = (char)byte; /* n never exceeds at: a character has at least one byte */
    }
  }
  token->length = n;
}

/* Passes bytes on as UTF-8. Each longest part of a character that cannot continue (Unicode standard, section 3.9)
 * becomes one U+FFFD; an incomplete character at the end waits for the next bytes. */
static void feed_bytes(yk_decoder_stream *stream, size_t at, state *own, const char *bytes, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes;) {
    unsigned char byte = (unsigned char)bytes[i];
    if (own->n_open > 0) {
      if (yk_utf8_may_continue(own->open[0], own->n_open, byte)) {
        own->open[own->n_open++] = byte;
        i++;
        if (own->n_open < yk_utf8_sequence_bytes(own->open[0])) continue;
        feed(stream, at + 1, (const char *)own->open, own->n_open);
      } else {
        feed_replacement(stream, at + 1);
      }
      own->n_open = 0;
      continue;
    }
    size_t n_valid = yk_utf8_valid_bytes(bytes + i, n_bytes - i);
    if (n_valid > 0) feed(stream, at + 1, bytes + i, n_valid);
    i += n_valid;
    if (i == n_bytes) break;
    if (yk_utf8_sequence_bytes((unsigned char)bytes[i]) == 0)
      feed_replacement(stream, at + 1);
    else
      own->open[own->n_open++] = (unsigned char)bytes[i];
    i++;
  }
}

/* The byte of a token such as <0x0A>, or -1. A sign before one digit is accepted, as in the public implementation. */
static int named_byte(const yk_strbuf *token)
{
  if (token->length != 6 || memcmp(token->data, "<0x", 3) != 0 || token->data[5] != '>') return -1;
  int value = 0;
  for (int i = 3; i < 5; i++) {
    char c = token->data[i];
    if (c == '+' && i == 3) continue;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

/* Ends a run of byte tokens. The run becomes one token if it is valid UTF-8, else one U+FFFD for each byte. */
static void end_run(yk_decoder_stream *stream, size_t at, state *own)
{
  if (own->run.length == 0) return;
  if (yk_utf8_valid_bytes(own->run.data, own->run.length) == own->run.length) {
    feed(stream, at + 1, own->run.data, own->run.length);
    end_token(stream, at + 1);
  } else {
    for (size_t i = 0; i < own->run.length; i++) {
      feed_replacement(stream, at + 1);
      end_token(stream, at + 1);
    }
  }
  yk_strbuf_clear(&own->run);
}

/* Passes on everything except up to n_front characters at the front and the last n_back characters, which may be the
 * end of the token. */
static void feed_stripped(yk_decoder_stream *stream, size_t at, const yk_decoder_stage *stage, state *own,
                          const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes;) {
    if (own->n_stripped == stage->n_front && stage->n_back == 0) {
      feed(stream, at + 1, text + i, n_bytes - i);
      return;
    }
    size_t length = yk_utf8_sequence_bytes((unsigned char)text[i]);
    bool strippable = length == stage->character_bytes && memcmp(text + i, stage->character, length) == 0;
    if (!strippable) {
      for (; own->n_held > 0; own->n_held--) feed(stream, at + 1, stage->character, stage->character_bytes);
      own->n_stripped = stage->n_front;
      feed(stream, at + 1, text + i, length);
    } else if (own->n_stripped < stage->n_front) {
      own->n_stripped++;
    } else if (own->n_held < stage->n_back) {
      own->n_held++;
    } else {
      feed(stream, at + 1, stage->character, stage->character_bytes);
    }
    i += length;
  }
}

static void replace_token(yk_decoder_stream *stream, size_t at, const yk_decoder_stage *stage, const yk_strbuf *token)
{
  if (token->length == 0) return;
  yk_spans matches = {0};
  size_t done = 0;
  yk_status status = yk_regex_find_all(stage->pattern, token->data, token->length, &matches, stream->err);
  if (status != YK_OK && stream->status == YK_OK) stream->status = status;
  for (size_t i = 0; i < matches.n && stream->status == YK_OK; i++) {
    stream->budget_bytes -= (int64_t)stage->content_bytes;
    if (stream->budget_bytes < 0)
      stream->status = yk_err_set(stream->err, YK_E_FORMAT, "decoder: Replace makes the text more than %d times longer",
                                  (int)GROWTH_LIMIT);
    feed(stream, at + 1, token->data + done, matches.items[i].begin - done);
    feed(stream, at + 1, stage->content, stage->content_bytes);
    done = matches.items[i].end;
  }
  feed(stream, at + 1, token->data + done, token->length - done);
  free(matches.items);
}

static void feed_metaspace(yk_decoder_stream *stream, size_t at, const yk_decoder_stage *stage, const state *own,
                           const char *text, size_t n_bytes)
{
  bool drops = !own->any_token && !stage->keeps_first;
  size_t done = 0;
  for (size_t i = 0; i < n_bytes;) {
    size_t length = yk_utf8_sequence_bytes((unsigned char)text[i]);
    if (length == stage->character_bytes && memcmp(text + i, stage->character, length) == 0) {
      feed(stream, at + 1, text + done, i - done);
      if (!drops) feed(stream, at + 1, " ", 1);
      done = i + length;
    }
    i += length;
  }
  feed(stream, at + 1, text + done, n_bytes - done);
}

static void begin_joined(yk_decoder_stream *stream, size_t at, state *own)
{
  if (own->any_token && !own->in_token) feed(stream, at + 1, " ", 1);
  own->in_token = true;
}

static void feed(yk_decoder_stream *stream, size_t at, const char *text, size_t n_bytes)
{
  if (n_bytes == 0 || stream->status != YK_OK) return;
  if (at == stream->decoder->n_stages) {
    yk_strbuf_append(stream->out, text, n_bytes);
    return;
  }
  const yk_decoder_stage *stage = &stream->decoder->stages[at];
  state *own = &stream->states[at];
  switch (stage->kind) {
  case YK_DECODE_BYTE_LEVEL:
  case YK_DECODE_BYTE_FALLBACK:
  case YK_DECODE_REPLACE:
    yk_strbuf_append(&own->token, text, n_bytes);
    if (own->token.failed) stream->status = yk_err_set(stream->err, YK_E_NOMEM, "no memory to decode");
    break;
  case YK_DECODE_FUSE: feed(stream, at + 1, text, n_bytes); break;
  case YK_DECODE_STRIP: feed_stripped(stream, at, stage, own, text, n_bytes); break;
  case YK_DECODE_METASPACE: feed_metaspace(stream, at, stage, own, text, n_bytes); break;
  case YK_DECODE_JOIN:
    begin_joined(stream, at, own);
    feed(stream, at + 1, text, n_bytes);
    break;
  }
}

static void end_token(yk_decoder_stream *stream, size_t at)
{
  if (at == stream->decoder->n_stages || stream->status != YK_OK) return;
  const yk_decoder_stage *stage = &stream->decoder->stages[at];
  state *own = &stream->states[at];
  switch (stage->kind) {
  case YK_DECODE_BYTE_LEVEL:
    spell_byte_level(&own->token);
    if (stream->is_raw)
      yk_strbuf_append(stream->out, own->token.data, own->token.length);
    else
      feed_bytes(stream, at, own, own->token.data, own->token.length);
    yk_strbuf_clear(&own->token);
    return;
  case YK_DECODE_FUSE: return;
  case YK_DECODE_BYTE_FALLBACK: {
    char byte = (char)named_byte(&own->token);
    if (named_byte(&own->token) >= 0) {
      yk_strbuf_append(stream->is_raw ? stream->out : &own->run, &byte, 1);
      if (own->run.failed) stream->status = yk_err_set(stream->err, YK_E_NOMEM, "no memory to decode");
      yk_strbuf_clear(&own->token);
      return;
    }
    end_run(stream, at, own);
    feed(stream, at + 1, own->token.data, own->token.length);
    yk_strbuf_clear(&own->token);
    break;
  }
  case YK_DECODE_REPLACE:
    replace_token(stream, at, stage, &own->token);
    yk_strbuf_clear(&own->token);
    break;
  case YK_DECODE_STRIP: own->n_stripped = own->n_held = 0; break;
  case YK_DECODE_METASPACE: own->any_token = true; break;
  case YK_DECODE_JOIN:
    begin_joined(stream, at, own);
    own->in_token = false;
    own->any_token = true;
    break;
  }
  end_token(stream, at + 1);
}

/* Ends the list: passes on the text held back. Stages that merge several tokens emit the merged token. */
static void end_list(yk_decoder_stream *stream, size_t at)
{
  state *own = &stream->states[at];
  switch (stream->decoder->stages[at].kind) {
  case YK_DECODE_BYTE_LEVEL:
    if (own->n_open > 0) feed_replacement(stream, at + 1);
    own->n_open = 0;
    end_token(stream, at + 1);
    break;
  case YK_DECODE_FUSE: end_token(stream, at + 1); break;
  case YK_DECODE_BYTE_FALLBACK: end_run(stream, at, own); break;
  case YK_DECODE_METASPACE:
  case YK_DECODE_JOIN: own->any_token = false; break;
  case YK_DECODE_STRIP:
  case YK_DECODE_REPLACE: break;
  }
}

yk_status yk_decoder_stream_init(yk_decoder_stream *stream, const yk_decoder *decoder, yk_err *err)
{
  *stream = (yk_decoder_stream){.decoder = decoder};
  stream->states = calloc(decoder->n_stages + 1, sizeof *stream->states);
  return stream->states ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory to decode");
}

void yk_decoder_stream_free(yk_decoder_stream *stream)
{
  for (size_t i = 0; stream->states && i < stream->decoder->n_stages; i++) {
    yk_strbuf_free(&stream->states[i].token);
    yk_strbuf_free(&stream->states[i].run);
  }
  free(stream->states);
  *stream = (yk_decoder_stream){0};
}

static yk_status outcome(const yk_decoder_stream *stream)
{
  if (stream->status == YK_OK && stream->out->failed) return yk_err_set(stream->err, YK_E_NOMEM, "no memory to decode");
  return stream->status;
}

yk_status yk_decoder_stream_push(yk_decoder_stream *stream, const char *token, size_t n_bytes, yk_strbuf *out,
                                 yk_err *err)
{
  stream->out = out;
  stream->err = err;
  stream->budget_bytes += (int64_t)n_bytes * GROWTH_LIMIT + FREE_BYTES_PER_TOKEN;
  feed(stream, 0, token, n_bytes);
  end_token(stream, 0);
  return outcome(stream);
}

yk_status yk_decoder_stream_token_bytes(yk_decoder_stream *stream, const char *token, size_t n_bytes, yk_strbuf *out,
                                        yk_err *err)
{
  if (!stream->is_raw) { /* the text begins with another token */
    yk_strbuf before = YK_STRBUF_INIT;
    stream->is_raw = true;
    yk_status status = yk_decoder_stream_push(stream, "a", 1, &before, err);
    yk_strbuf_free(&before);
    if (status != YK_OK) return status;
  }
  return yk_decoder_stream_push(stream, token, n_bytes, out, err);
}

/* Number of bytes at the end that begin an incomplete character. */
static size_t n_incomplete(const char *bytes, size_t n_bytes)
{
  for (size_t n = 1; n < YK_UTF8_MAX_BYTES && n <= n_bytes; n++) {
    const char *lead = bytes + n_bytes - n;
    if (yk_utf8_sequence_bytes((unsigned char)*lead) <= n) continue;
    for (size_t i = 1; i < n; i++)
      if (!yk_utf8_may_continue((unsigned char)*lead, i, (unsigned char)lead[i])) return 0;
    return n;
  }
  return 0;
}

yk_status yk_decoder_stream_cut(yk_decoder_stream *stream, yk_strbuf *out, yk_err *err)
{
  stream->out = out;
  stream->err = err;
  for (size_t at = 0; at < stream->decoder->n_stages; at++) {
    state *own = &stream->states[at];
    char open[YK_UTF8_MAX_BYTES];
    size_t n_open = n_incomplete(own->run.data, own->run.length);
    own->n_held = 0;
    if (own->run.length == 0) continue;
    own->run.length -= n_open;
    memcpy(open, own->run.data + own->run.length, n_open);
    end_run(stream, at, own);
    yk_strbuf_append(&own->run, open, n_open); /* fits: the run keeps its memory */
  }
  return outcome(stream);
}

yk_status yk_decoder_stream_finish(yk_decoder_stream *stream, yk_strbuf *out, yk_err *err)
{
  stream->out = out;
  stream->err = err;
  for (size_t i = 0; i < stream->decoder->n_stages; i++) end_list(stream, i);
  stream->budget_bytes = 0;
  return outcome(stream);
}

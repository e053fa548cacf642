/* decoder.h - the "decoder" of a tokenizer.json, applied to a stream of tokens.
 *
 * A decoder is a chain of stages, each of which turns a list of tokens into a list of tokens; the text is the
 * concatenation of the last list. Every stage passes on at once the text that later tokens cannot change, so that the
 * same code decodes a whole list and one token at a time, to the same bytes in the same order.
 *
 * Supported: ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, Sequence. Without a decoder tokens are joined by
 * single spaces. */
#ifndef YK_TEXT_DECODER_H
#define YK_TEXT_DECODER_H

#include "base/json.h"
#include "base/strbuf.h"

typedef struct yk_decoder {
  struct yk_decoder_stage *stages;
  size_t n_stages;
} yk_decoder;

/* yk_decoder_parse - read the value of "decoder" (absent or null: none). On failure the caller frees nothing. */
yk_status yk_decoder_parse(yk_decoder *decoder, const char *file, yk_json value, yk_err *err);
void yk_decoder_free(yk_decoder *decoder);

/* State of the stages while one text is decoded. Owner: the creator; one thread at a time. The decoder must outlive the
 * stream. */
typedef struct yk_decoder_stream {
  const yk_decoder *decoder;
  struct yk_decoder_state *states; /* [n_stages] */
  yk_strbuf *out;                  /* of the current call */
  yk_err *err;
  yk_status status; /* of the first failure */
  bool is_raw;      /* bytes that tokens stand for go straight to out, whether or not they form characters */
  /* bytes that Replace may still write: a chain of Replace stages must not make a text grow without end */
  int64_t budget_bytes;
} yk_decoder_stream;

yk_status yk_decoder_stream_init(yk_decoder_stream *stream, const yk_decoder *decoder, yk_err *err);
void yk_decoder_stream_free(yk_decoder_stream *stream);

/* yk_decoder_stream_push - decode one more token; appends to out the bytes that are final (always whole characters).
 *   Amortised time is proportional to the token. After a failure the stream can only be freed. */
yk_status yk_decoder_stream_push(yk_decoder_stream *stream, const char *token, size_t n_bytes, yk_strbuf *out,
                                 yk_err *err);

/* yk_decoder_stream_cut - append the text held back, except the bytes of an incomplete character. Later tokens continue
 *   the text. After a failure the stream can only be freed. */
yk_status yk_decoder_stream_cut(yk_decoder_stream *stream, yk_strbuf *out, yk_err *err);

/* yk_decoder_stream_token_bytes - append the bytes that a token adds within a text, which may be parts of
 *   characters. The stream may be used for this alone from then on. After a failure it can only be freed. */
yk_status yk_decoder_stream_token_bytes(yk_decoder_stream *stream, const char *token, size_t n_bytes, yk_strbuf *out,
                                        yk_err *err);

/* yk_decoder_stream_finish - no more tokens follow: appends the text held back. The stream can then begin another
 * text. */
yk_status yk_decoder_stream_finish(yk_decoder_stream *stream, yk_strbuf *out, yk_err *err);

#endif

/* decoder_stage.h - the stages of a decoder; for decoder_parse.c and decoder.c. */
#ifndef YK_TEXT_DECODER_STAGE_H
#define YK_TEXT_DECODER_STAGE_H

#include "text/component.h"

typedef struct yk_decoder_stage {
  enum {
    YK_DECODE_BYTE_LEVEL,    /* byte-level characters to bytes, all tokens joined into one */
    YK_DECODE_BYTE_FALLBACK, /* runs of <0xNN> tokens to their text */
    YK_DECODE_FUSE,          /* joins all tokens into one */
    YK_DECODE_STRIP,         /* removes a number of given characters from both ends of each token */
    YK_DECODE_REPLACE,       /* replaces matches of a pattern in each token */
    YK_DECODE_METASPACE,     /* a character to a space; none in the first token */
    YK_DECODE_JOIN           /* a space before every token but the first */
  } kind;
  yk_regex *pattern; /* REPLACE */
  char *content;     /* REPLACE: replacement */
  size_t content_bytes;
  char character[5]; /* STRIP, METASPACE */
  size_t character_bytes;
  int64_t n_front, n_back; /* STRIP: maximum number */
  bool keeps_first;        /* METASPACE: the first token is treated like the others */
} yk_decoder_stage;

#endif

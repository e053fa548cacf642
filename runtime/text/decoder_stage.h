/* decoder_stage.h - what a decoder is made of; shared by its reader and its runner. */
#ifndef YK_TEXT_DECODER_STAGE_H
#define YK_TEXT_DECODER_STAGE_H

#include "text/component.h"

typedef struct yk_decoder_stage {
  enum {
    YK_DECODE_BYTE_LEVEL,    /* characters of the byte-level alphabet back to bytes, all of them to one token */
    YK_DECODE_BYTE_FALLBACK, /* runs of <0xNN> tokens to the text that they spell */
    YK_DECODE_FUSE,          /* all tokens to one */
    YK_DECODE_STRIP,         /* a number of given characters off both ends of each token */
    YK_DECODE_REPLACE,       /* matches of a pattern in each token */
    YK_DECODE_METASPACE,     /* a character for a space; none of it in the first token */
    YK_DECODE_JOIN           /* a space before every token but the first */
  } kind;
  yk_regex *pattern; /* REPLACE */
  char *content;     /* REPLACE: what to put for a match */
  size_t content_bytes;
  char character[5]; /* STRIP, METASPACE */
  size_t character_bytes;
  int64_t n_front, n_back; /* STRIP: at most so many */
  bool keeps_first;        /* METASPACE: the first token is like the others */
} yk_decoder_stage;

#endif

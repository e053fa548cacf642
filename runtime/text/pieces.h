/* pieces.h - a text during tokenisation: cut into pieces, some of which are already tokens (added tokens). */
#ifndef YK_TEXT_PIECES_H
#define YK_TEXT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

typedef struct yk_piece {
  size_t begin, length; /* bytes of yk_pieces.text; pieces are never empty */
  int32_t id;           /* of the piece's added token; -1: text still to be encoded */
  bool at_start;        /* the piece begins at the start of the original text */
} yk_piece;

/* A failed allocation sets failed, which stays set and is checked once at the end. Start from {0}. */
typedef struct yk_pieces {
  const char *text; /* the text of the pieces: owned.data, or the caller's text */
  yk_strbuf owned;
  yk_piece *items;
  size_t n, capacity;
  bool failed;
} yk_pieces;

/* yk_pieces_append - add one piece; an empty piece without a token is omitted. */
void yk_pieces_append(yk_pieces *pieces, yk_piece piece);

/* yk_pieces_clear - remove all pieces and the text; the memory is kept. */
void yk_pieces_clear(yk_pieces *pieces);

/* yk_pieces_move_text - move the text of from, to which to's pieces refer, to to. */
void yk_pieces_move_text(yk_pieces *to, yk_pieces *from);

void yk_pieces_free(yk_pieces *pieces);

#endif
